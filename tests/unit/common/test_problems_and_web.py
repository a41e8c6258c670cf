"""Every refusal at an HTTP door is a problem document, also of a body that is too large."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI, Request
from pydantic import BaseModel

from headrace.common import problems
from headrace.common.errors import Conflict, RateLimited, Unauthorized
from headrace.common.web import BodyLimit

LIMIT = 1_000
LARGE = 50_000


class Wanted(BaseModel):
    count: int
    name: str


def application() -> FastAPI:
    app = FastAPI()
    problems.install(app)
    app.add_middleware(BodyLimit, max_bytes=LIMIT, streamed={"/streamed": LARGE})

    @app.get("/conflict")
    async def conflict() -> None:
        raise Conflict("somebody was first")

    @app.get("/busy")
    async def busy() -> None:
        raise RateLimited("too often", after=6.4)

    @app.get("/stranger")
    async def stranger() -> None:
        raise Unauthorized("who are you")

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("p4ssword")

    @app.post("/wanted")
    async def wanted(_: Wanted) -> None:
        return

    @app.post("/size")
    async def size(request: Request) -> int:
        return len(await request.body())

    @app.post("/streamed")
    async def streamed(request: Request) -> list[int]:
        return [len(piece) async for piece in request.stream() if piece]

    return app


@pytest_asyncio.fixture
async def door() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(application(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        yield client


async def pieces(total: int) -> AsyncIterator[bytes]:
    """A body whose length is not declared."""
    for _ in range(total // 100):
        yield b"x" * 100
    yield b"x" * (total % 100)


async def test_known_error_is_a_whole_problem_document(door: httpx.AsyncClient) -> None:
    answer = await door.get("/conflict")

    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:headrace:problem:conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "somebody was first",
        "code": "conflict",
        "error": {
            "message": "somebody was first",
            "type": "conflict",
            "code": "conflict",
            "param": None,
        },
    }


async def test_unknown_route_is_named(door: httpx.AsyncClient) -> None:
    answer = await door.get("/nowhere")

    assert (answer.status_code, answer.json()["detail"]) == (404, "there is nothing at /nowhere")


async def test_wrong_method_names_the_right_ones(door: httpx.AsyncClient) -> None:
    answer = await door.post("/conflict")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


async def test_busy_door_says_when_to_come_back(door: httpx.AsyncClient) -> None:
    answer = await door.get("/busy")

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "6")


async def test_stranger_is_told_the_scheme_that_would_work(door: httpx.AsyncClient) -> None:
    answer = await door.get("/stranger")

    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_unexpected_error_does_not_show_its_text(door: httpx.AsyncClient) -> None:
    answer = await door.get("/broken")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "p4ssword" not in answer.text


async def test_unexpected_error_is_in_the_log(
    door: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await door.get("/broken")

    assert [(r.message, str(r.exc_info[1])) for r in caplog.records if r.exc_info] == [
        ("http.failed", "p4ssword")
    ]


async def test_malformed_request_says_what_is_wrong_where(door: httpx.AsyncClient) -> None:
    answer = await door.post("/wanted", json={"count": "many"})

    assert answer.status_code == 422
    assert [each["at"] for each in answer.json()["problems"]] == ["body.count", "body.name"]
    assert answer.json()["detail"].endswith("(and 1 more)")


async def test_malformed_request_does_not_repeat_the_body(door: httpx.AsyncClient) -> None:
    answer = await door.post("/wanted", json={"count": "p4ssword", "name": "n"})

    assert (answer.status_code, "p4ssword" in answer.text) == (422, False)


async def test_declared_body_at_the_limit_passes(door: httpx.AsyncClient) -> None:
    assert (await door.post("/size", content=b"x" * LIMIT)).json() == LIMIT


async def test_chunked_body_at_the_limit_passes_whole(door: httpx.AsyncClient) -> None:
    assert (await door.post("/size", content=pieces(LIMIT))).json() == LIMIT


@pytest.mark.parametrize("is_declared", [True, False])
async def test_body_above_the_limit_is_a_problem(
    door: httpx.AsyncClient,
    is_declared: bool,  # noqa: FBT001  (a parameter of a table)
) -> None:
    content = b"x" * (LIMIT + 1) if is_declared else pieces(LIMIT + 1)

    answer = await door.post("/size", content=content)

    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    assert answer.json()["detail"] == "the body is larger than the 1000 bytes that this door takes"


async def test_body_without_end_is_read_only_within_bounds(door: httpx.AsyncClient) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 100 * LIMIT:
            read += 100
            yield b"x" * 100

    await door.post("/size", content=endless())

    assert read <= 16 * LIMIT + 200


async def test_streamed_body_comes_piece_by_piece_up_to_its_own_limit(door: httpx.AsyncClient) -> None:
    assert (await door.post("/streamed", content=pieces(LARGE))).json() == [100] * (LARGE // 100)


@pytest.mark.parametrize("is_declared", [True, False])
async def test_streamed_body_above_its_limit_is_a_problem(
    door: httpx.AsyncClient,
    is_declared: bool,  # noqa: FBT001  (a parameter of a table)
) -> None:
    content = b"x" * (LARGE + 1) if is_declared else pieces(LARGE + 1)

    answer = await door.post("/streamed", content=content)

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert answer.json()["detail"] == "the body is larger than the 50000 bytes that this door takes"
