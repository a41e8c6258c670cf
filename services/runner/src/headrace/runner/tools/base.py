"""Tool: what a model can ask for. These cannot write anything, by construction (effect `none`)."""

from typing import Any, ClassVar, Protocol


class ToolError(Exception):
    """The tool could not do it; the sentence is for the model, which may try otherwise."""


class Tool(Protocol):
    """A named function with a described input."""

    name: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[dict[str, Any]]
    """JSON Schema of the arguments object."""

    async def call(self, arguments: dict[str, Any], *, account_id: str) -> str:
        """Do it, for an account.

        Raises:
            ToolError: It cannot be done with these arguments.
        """


def declaration(tool: Tool) -> dict[str, Any]:
    """The tool as models are told of it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def text_argument(arguments: dict[str, Any], name: str) -> str:
    """A text that must be there.

    Raises:
        ToolError: It is not, or is not text.
    """
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"the argument `{name}` must be a text that is not empty")
    return value
