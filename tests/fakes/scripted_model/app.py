"""The scripted model's HTTP application: the model's own endpoints and those that control it."""

from dataclasses import asdict

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.scripted_model.answer import error_body
from tests.fakes.scripted_model.completions import Completions
from tests.fakes.scripted_model.playbook import Playbook
from tests.fakes.scripted_model.script import Failure, Script
from tests.fakes.scripted_model.stage import Stage

_LONGEST_WAIT = 60.0
"""Seconds that a control request may wait for calls or holds."""


def create_app() -> Starlette:
    """Build the application around an empty stage."""
    stage = Stage()
    control = _Control(stage)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", Completions(stage), methods=["POST"]),
            Route("/v1/models", control.list_models, methods=["GET"]),
            Route("/healthz", control.report_health, methods=["GET"]),
            Route("/script", control.replace_script, methods=["PUT"]),
            Route("/calls", control.list_calls, methods=["GET"]),
            Route("/calls", control.forget_calls, methods=["DELETE"]),
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
        self._stage.playbook = Playbook(Script.model_validate_json(await request.body()))
        return Response(status_code=204)

    async def list_calls(self, request: Request) -> Response:
        settled, seconds = int(request.query_params.get("settled", "0")), _wait(request)
        calls = await self._stage.journal.calls(settled=settled, seconds=seconds)
        return JSONResponse([asdict(call) for call in calls])

    async def forget_calls(self, _request: Request) -> Response:
        self._stage.forget_calls()
        return Response(status_code=204)

    async def report_totals(self, _request: Request) -> Response:
        return JSONResponse(asdict(self._stage.journal.totals))

    async def release(self, request: Request) -> Response:
        return JSONResponse({"released": self._stage.holds.release(request.path_params["name"])})

    async def count_held(self, request: Request) -> Response:
        name, at_least = request.path_params["name"], int(request.query_params.get("at_least", "0"))
        waiting = await self._stage.holds.count(name, at_least=at_least, seconds=_wait(request))
        return JSONResponse({"waiting": waiting})

    async def list_models(self, _request: Request) -> Response:
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "tests"}
            for name in self._stage.playbook.models()
        ]
        return JSONResponse({"object": "list", "data": models})

    async def report_health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})


def _wait(request: Request) -> float:
    return min(float(request.query_params.get("seconds", "0")), _LONGEST_WAIT)


async def _refuse(_request: Request, error: Exception) -> Response:
    return JSONResponse(error_body(Failure(status=400, message=str(error))), 400)
