"""The mail server's control door: scripts go in, what was accepted comes out."""

from dataclasses import asdict

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.mail_server.script import Script
from tests.fakes.mail_server.stage import Stage

_LONGEST_WAIT = 60.0
"""Seconds that a control request may wait for mails or holds."""


def create_app(stage: Stage) -> Starlette:
    """Build the application around a stage."""
    control = _Control(stage)
    return Starlette(
        routes=[
            Route("/healthz", control.report_health, methods=["GET"]),
            Route("/script", control.replace_script, methods=["PUT"]),
            Route("/mails", control.list_mails, methods=["GET"]),
            Route("/mails", control.forget_mails, methods=["DELETE"]),
            Route("/stats", control.report_totals, methods=["GET"]),
            Route("/release/{name}", control.release, methods=["POST"]),
            Route("/holding/{name}", control.count_held, methods=["GET"]),
        ],
        exception_handlers={ValidationError: _refuse},
    )


class _Control:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def replace_script(self, request: Request) -> Response:
        self._stage.play(Script.model_validate_json(await request.body()))
        return Response(status_code=204)

    async def list_mails(self, request: Request) -> Response:
        at_least = int(request.query_params.get("at_least", "0"))
        mails = await self._stage.record.mails(at_least=at_least, seconds=_wait(request))
        return JSONResponse([asdict(mail) for mail in mails])

    async def forget_mails(self, _request: Request) -> Response:
        self._stage.forget()
        return Response(status_code=204)

    async def report_totals(self, _request: Request) -> Response:
        return JSONResponse(self._stage.record.totals.report())

    async def release(self, request: Request) -> Response:
        return JSONResponse({"released": self._stage.holds.release(request.path_params["name"])})

    async def count_held(self, request: Request) -> Response:
        name, at_least = request.path_params["name"], int(request.query_params.get("at_least", "0"))
        waiting = await self._stage.holds.count(name, at_least=at_least, seconds=_wait(request))
        return JSONResponse({"waiting": waiting})

    async def report_health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})


def _wait(request: Request) -> float:
    return min(float(request.query_params.get("seconds", "0")), _LONGEST_WAIT)


async def _refuse(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)
