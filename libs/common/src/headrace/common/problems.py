"""Problem documents (RFC 9457): every refusal at an HTTP door is one, with a sentence that a person can act on."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from headrace.common.errors import HeadraceError
from headrace.contracts.text import mended

log = logging.getLogger(__name__)


def problem(
    status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem document. It also carries `error` in the shape that OpenAI clients show to their users."""
    body = {
        "type": f"urn:headrace:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "error": {"message": detail, "type": code, "code": code, "param": None},
        **more,
    }
    return JSONResponse(body, status, headers=headers, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Answer every error of an application with a problem document."""

    @app.exception_handler(HeadraceError)
    async def known(_: Request, error: HeadraceError) -> JSONResponse:
        return problem(error.status, error.code, error.message, headers=error.headers, **error.members)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        found = [
            {"at": mended(".".join(map(str, each["loc"]))), "problem": each["msg"]} for each in error.errors()
        ]
        first = found[0]
        detail = f"{first['at']}: {first['problem']}" + (f" (and {len(found) - 1} more)" if found[1:] else "")
        return problem(422, "invalid", detail, problems=found)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:
        detail = error.detail if error.status_code != 404 else f"there is nothing at {request.url.path}"
        return problem(error.status_code, "http", str(detail), headers=dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unknown(_: Request, error: Exception) -> JSONResponse:
        log.error("http.failed", exc_info=error)
        return problem(500, "internal", "something went wrong on our side; the service's log says what")
