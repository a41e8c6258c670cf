"""LiteLLM: the only door to model providers."""

import asyncio
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # without it, the import asks the network first

import litellm
from litellm import exceptions as vendor

from headrace.common.telemetry import span
from headrace.contracts.runs import TokenCount
from headrace.contracts.text import mended
from headrace.runner.errors import ModelFailed, ModelRefused
from headrace.runner.model import CHARACTERS_PER_TOKEN, ModelRequest, ModelTurn, ToolCall
from headrace.runner.settings import ModelSettings

litellm.telemetry = False
litellm.suppress_debug_info = True
litellm.turn_off_message_logging = True
litellm.disable_streaming_logging = (
    True  # usage goes to our ledger; its own bookkeeping costs more than the call
)
logging.getLogger("LiteLLM").setLevel(logging.WARNING)

NO_KEY = "none"
"""Sent to a server of one's own that asks for no key, since the OpenAI client insists on one."""

LONGEST_RETRY_AFTER = 60.0
"""Seconds; a provider that asks for more is asked again after this."""

_HOPELESS = (
    vendor.AuthenticationError,
    vendor.PermissionDeniedError,
    vendor.NotFoundError,
    vendor.BadRequestError,
    vendor.UnprocessableEntityError,
)


class LiteLlm:
    """Calls any model that LiteLLM knows; agents without a model of their own get the shared one.

    Args:
        shared: The platform's default model and its credentials, which never come from an agent's row.
        timeout: Seconds of silence after which a call failed.
    """

    def __init__(self, shared: ModelSettings, *, timeout: float) -> None:
        self._shared, self._timeout = shared, timeout

    async def call(self, request: ModelRequest, *, on_text: Callable[[str], Awaitable[None]]) -> ModelTurn:
        """Call once, telling text as it comes. See `Model.call` for errors."""
        model = request.model or self._shared.model
        turn = _Gathered(model)
        with span("model call", model=model):
            try:
                async for chunk in self._chunks(model, request):
                    text = turn.take(chunk)
                    if text:
                        await on_text(text)
            except _HOPELESS as error:
                raise ModelRefused(f"{model} refused the call: {_reason(error)}") from error
            except TimeoutError as error:
                sentence = f"{model} was silent for {self._timeout:.0f} s"
                raise ModelFailed(sentence, tokens=turn.spent(request)) from error
            except Exception as error:
                if not type(error).__module__.startswith(("litellm", "openai", "httpx", "aiohttp")):
                    raise
                raise ModelFailed(
                    f"{model} failed: {_reason(error)}",
                    after=_retry_after(error),
                    tokens=turn.spent(request),
                ) from error
        return turn.result(request)

    async def _chunks(self, model: str, request: ModelRequest) -> AsyncIterator[Any]:
        options: dict[str, Any] = {"tools": list(request.tools)} if request.tools else {}
        if request.model is None:
            key = self._shared.api_key.get_secret_value() if self._shared.api_key else None
            if key is None and self._shared.api_base is not None:
                key = NO_KEY
            options |= {"api_base": self._shared.api_base, "api_key": key}
        async with asyncio.timeout(self._timeout):
            stream: Any = await litellm.acompletion(
                model=model,
                messages=list(request.messages),
                stream=True,
                stream_options={"include_usage": True},
                timeout=self._timeout,
                num_retries=0,
                max_retries=0,
                **options,
            )
        chunks = aiter(stream)
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            yield chunk


class _Gathered:
    """Puts the chunks of a stream together. It reads to the end, whatever a finish reason says on the way."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: Any = None
        self._has_begun = False
        self._half = ""
        """The first half of a surrogate pair, whose second comes with the next chunk."""

    def take(self, chunk: Any) -> str:
        """Add a chunk; answers its text."""
        self._has_begun = True
        self._usage = getattr(chunk, "usage", None) or self._usage
        if not chunk.choices:
            return ""
        delta = chunk.choices[0].delta
        for part in delta.tool_calls or ():
            call = self._calls.setdefault(part.index or 0, {"id": "", "name": "", "arguments": ""})
            call["id"] = part.id or call["id"]
            call["name"] += part.function.name or ""
            call["arguments"] += part.function.arguments or ""
        text: str = self._half + (delta.content or "")
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = mended(text.removesuffix(self._half))
        self._text.append(text)
        return text

    def result(self, request: ModelRequest) -> ModelTurn:
        """The whole turn."""
        text = "".join(self._text)
        calls = tuple(
            ToolCall(mended(call["id"]) or f"call_{index}", mended(call["name"]), mended(call["arguments"]))
            for index, call in sorted(self._calls.items())
        )
        return ModelTurn(text, calls, self._tokens(text, request), self._model)

    def spent(self, request: ModelRequest) -> TokenCount | None:
        """What a turn cost that broke off; `None` where it had not begun."""
        return self._tokens("".join(self._text), request) if self._has_begun else None

    def _tokens(self, text: str, request: ModelRequest) -> TokenCount:
        if self._usage is None or not self._usage.prompt_tokens:
            written = sum(len(str(message.get("content") or "")) for message in request.messages)
            return TokenCount(
                input_tokens=math.ceil(written / CHARACTERS_PER_TOKEN),
                output_tokens=math.ceil(len(text) / CHARACTERS_PER_TOKEN),
                is_estimated=True,
            )
        details = getattr(self._usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None) or 0
        return TokenCount(
            input_tokens=max(self._usage.prompt_tokens - cached, 0),
            cached_input_tokens=cached,
            output_tokens=self._usage.completion_tokens or 0,
        )


def _reason(error: Exception) -> str:
    """The provider's own sentence, in one line and of bounded length."""
    return mended(" ".join(str(getattr(error, "message", error)).split()))[:300]


def _retry_after(error: Exception) -> float | None:
    """What the provider asks to wait, in seconds, within reason."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        seconds = float(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None
