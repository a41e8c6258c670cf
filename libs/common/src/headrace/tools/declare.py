"""The `tool` decorator: a tool from a function's name, type hints and docstring."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, TypedDict, Unpack, overload

from docstring_parser import DocstringStyle, parse

from headrace.tools.arguments import arguments_of
from headrace.tools.tool import (
    Effect,
    KeyFunction,
    ProviderKeyFunction,
    ReconcileFunction,
    Tool,
    UndoFunction,
)


class ToolOptions(TypedDict, total=False):
    """What a function does not say of itself; the fields of `Tool` tell what each means."""

    effect: Effect
    key: KeyFunction | None
    reconcile: ReconcileFunction | Literal["call_again"] | None
    provider_key: ProviderKeyFunction | None
    undoes: UndoFunction | None
    approval: bool
    timeout: float
    max_result: int
    remembers: timedelta


@overload
def tool(
    function: Callable[..., Any], /, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: `@tool`, `@tool(effect="none")`, or `tool(function)` in a factory.

    The docstring is what the model reads: its text describes the tool, its Google-style `Args:` the parameters.
    A parameter annotated `ToolContext` is filled by the runner.

    Raises:
        TypeError: The declaration is wrong; the sentence says what would be right.
    """
    if function is None:
        return lambda decorated: _declared(decorated, name, options)
    return _declared(function, name, options)


def _declared(function: Callable[..., Any], name: str | None, options: ToolOptions) -> Tool:
    name = getattr(function, "__name__", "") if name is None else name
    docstring = parse(function.__doc__ or "", style=DocstringStyle.GOOGLE)
    if not docstring.description:
        raise TypeError(f"the tool `{name}` needs a docstring: it is what the model reads")
    described = {param.arg_name: param.description for param in docstring.params if param.description}
    arguments = arguments_of(function, described)
    return Tool(
        name=name,
        description=docstring.description,
        parameters=arguments.parameters,
        function=function,
        context_parameter=arguments.context_parameter,
        reader=arguments.read,
        **options,
    )
