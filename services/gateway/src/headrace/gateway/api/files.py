"""`/v1/files`: the files that runs are given. The content is in the object store; whose it is, in the table `files`."""

from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from headrace.common.clock import Clock
from headrace.common.errors import Invalid
from headrace.common.files import Files
from headrace.contracts.ids import Sha256
from headrace.contracts.runs import InputFile
from headrace.contracts.text import Text
from headrace.gateway import repository
from headrace.gateway.auth import KeyDoor

FILES_PATH = "/v1/files"
UNNAMED = "file-{sha256:.12}"
_ANY_BYTES: dict[str, Any] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

FileName = Annotated[Text, Query(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]


def files_router(door: KeyDoor, files: Files, clock: Clock, *, max_bytes: int) -> APIRouter:
    """The routes under `/v1/files`."""
    router = APIRouter(prefix=FILES_PATH, tags=["files"])

    @router.post(
        "", status_code=201, openapi_extra={"requestBody": {"required": True, "content": _ANY_BYTES}}
    )
    async def upload(
        request: Request,
        response: Response,
        account: Annotated[str, door.account()],
        name: FileName | None = None,
        content_type: Annotated[str, Header(max_length=255)] = "application/octet-stream",
    ) -> InputFile:
        """Upload a file: the body is its content, whatever its type. The same content is kept once."""
        if content_type.lower().startswith("multipart/"):
            raise Invalid("send the file itself as the body, such as with `curl --data-binary @file`")
        stored = await files.put(_pieces(request), max_bytes=max_bytes)
        file = InputFile(
            sha256=stored.sha256,
            name=name or UNNAMED.format(sha256=stored.sha256),
            media_type=content_type,
            size=stored.size,
        )
        async with door.transaction() as tx:
            await repository.keep_file(tx.connection, account, file, now=clock.now())
        response.headers["Location"] = f"{FILES_PATH}/{file.sha256}"
        return file

    async def find(sha256: str, account: str) -> InputFile:
        async with door.transaction() as tx:
            [file] = await repository.find_files(tx.connection, account, [sha256])
        await files.expect([file])
        return file

    @router.get("/{sha256}", response_class=Response, responses={200: {"content": _ANY_BYTES}})
    async def download(sha256: Sha256, account: Annotated[str, door.account()]) -> StreamingResponse:
        """The content of a file of yours."""
        file = await find(sha256, account)
        return StreamingResponse(files.get(sha256), headers=_headers(file))

    @router.head("/{sha256}", response_class=Response)
    async def look(sha256: Sha256, account: Annotated[str, door.account()]) -> Response:
        """Whether a file of yours is there, its type and its size."""
        return Response(headers=_headers(await find(sha256, account)))

    return router


def _headers(file: InputFile) -> dict[str, str]:
    """What a browser needs to save the file, and never to show it as a page of ours."""
    return {
        "Content-Type": file.media_type,
        "Content-Length": str(file.size),
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(file.name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect as error:
        raise Invalid("the connection ended before the file did") from error
