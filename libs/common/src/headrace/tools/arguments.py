"""A function's parameters as the arguments of a tool: their JSON Schema, and how they are read."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from headrace.tools.complaints import complaint
from headrace.tools.context import ToolContext
from headrace.tools.errors import ToolError


class _Untitled(GenerateJsonSchema):
    """A title repeats the name, and is paid for with each model call."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (the vendor's signature)
        return False


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function takes, beside the context."""

    parameters: dict[str, Any]
    """JSON Schema of the arguments object."""
    context_parameter: str | None
    _model: type[BaseModel]

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Validate and coerce; absent arguments have their defaults.

        Raises:
            ToolError: They do not fit; the sentence says what would.
        """
        try:
            read = self._model.model_validate(dict(given))
        except ValidationError as error:
            raise ToolError(complaint(error, list(self.parameters["properties"]))) from error
        return {info.alias or field: getattr(read, field) for field, info in self._fields()}

    def _fields(self) -> list[tuple[str, FieldInfo]]:
        return list(self._model.model_fields.items())


def arguments_of(function: Callable[..., Any], described: Mapping[str, str]) -> Arguments:
    """Read a function's signature.

    Args:
        function: Whose parameters are read.
        described: The description of each parameter that has one.

    Raises:
        TypeError: It cannot be declared to a model.
    """
    hints = _hints(function)
    fields: dict[str, Any] = {}
    contexts: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        _check(function, parameter)
        hint = hints[parameter.name]
        if hint is ToolContext:
            contexts.append(parameter.name)
        else:
            # Under an alias, as a parameter may have a name that a model's field may not (`schema`, `_id`).
            fields[f"argument_{len(fields)}"] = (hint, _field(parameter, hint, described.get(parameter.name)))
    if len(contexts) > 1:
        raise TypeError(f"{_name(function)} takes the context more than once: {', '.join(contexts)}")
    model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    return Arguments(_schema(function, model), contexts[0] if contexts else None, model)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation of {_name(function)} is not known at run time: {error}") from error


def _check(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    where = f"the parameter `{parameter.name}` of {_name(function)}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f"{where} takes any number of arguments; a model must be told of each by its name")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TypeError(f"{where} cannot be given by its name; take out the `/`")
    if parameter.annotation is parameter.empty:
        raise TypeError(f"{where} has no annotation; a model must be told its type")


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    default = ... if parameter.default is parameter.empty else parameter.default
    if get_origin(hint) is Annotated and any(
        isinstance(part, FieldInfo) and part.description for part in get_args(hint)
    ):
        description = None
    if description is None:
        return Field(default, alias=parameter.name)
    return Field(default, alias=parameter.name, description=description)


def _schema(function: Callable[..., Any], model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_Untitled)
    except PydanticUserError as error:
        raise TypeError(f"the parameters of {_name(function)} have no JSON Schema: {error}") from error
    schema.pop("title", None)
    return {"type": "object", "properties": {}, **schema}


def _name(function: Callable[..., Any]) -> str:
    return f"`{getattr(function, '__qualname__', repr(function))}`"
