"""The demo model: an OpenAI-compatible server that answers by rules, so that a newcomer needs no key.

Run it with `python -m headrace.local.demo_model --port 8099`.
"""

import argparse
import time
import uuid
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from headrace.local.demo_rules import reply
from headrace.local.demo_wire import MODEL, Answer, ChatRequest, error_body

_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep idle connections, so that none is closed while it is taken up again."""


def create_app() -> FastAPI:
    """Build the demo model's HTTP application."""
    app = FastAPI(title="Headrace demo model", openapi_url=None)
    app.add_api_route("/v1/chat/completions", _complete, methods=["POST"], response_model=None)
    app.add_api_route("/v1/models", _list_models, methods=["GET"])
    app.add_api_route("/healthz", _report_health, methods=["GET"])
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse)
    return app


async def _complete(chat: ChatRequest) -> Response:
    answer = Answer(
        id=f"chatcmpl-{uuid.uuid4().hex}",
        created=int(time.time()),
        reply=reply(chat.conversation(), chat.declared_tools()),
        characters_read=chat.characters(),
        counts_in_stream=chat.wants_usage,
    )
    if not chat.stream:
        return JSONResponse(answer.completion())
    return StreamingResponse(
        _stream(answer),
        media_type="text/event-stream",
        headers={"cache-control": "no-cache"},
    )


async def _stream(answer: Answer) -> AsyncIterator[str]:
    for event in answer.events():
        yield event


async def _list_models() -> dict[str, object]:
    return {
        "object": "list",
        "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "headrace"}],
    }


async def _report_health() -> dict[str, str]:
    return {"status": "ok"}


async def _refuse_invalid(_request: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    places = (".".join(str(part) for part in problem["loc"]) + f": {problem['msg']}" for problem in problems)
    return JSONResponse(error_body("; ".join(places), kind="invalid_request_error"), status_code=400)


async def _refuse(_request: Request, error: Exception) -> JSONResponse:
    status, detail = (
        (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, str(error))
    )
    return JSONResponse(error_body(detail, kind="invalid_request_error"), status_code=status)


def main() -> None:
    """Serve the demo model until a signal stops it."""
    parser = argparse.ArgumentParser(
        prog="headrace.local.demo_model", description="Headrace's rule-based demo model."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, required=True, help="TCP port to listen on")
    options = parser.parse_args()
    uvicorn.run(
        create_app(),
        host=options.host,
        port=options.port,
        log_level="warning",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )


if __name__ == "__main__":
    main()
