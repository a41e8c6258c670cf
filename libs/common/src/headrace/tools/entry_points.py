"""Tools that installed packages bring along."""

from importlib import metadata

from headrace.tools.tool import Tool

GROUP = "headrace.tools"
"""The entry points' group; each loads to a Tool, or to a list or tuple of them."""


def installed() -> list[Tool]:
    """Every tool of every installed package, in name order.

    Raises:
        ImportError: An entry point does not load.
        TypeError: One is no tool, or two tools have one name.
    """
    found: dict[str, tuple[Tool, str]] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        for tool in _loaded(point):
            if tool.name in found:
                raise TypeError(
                    f"two tools are named `{tool.name}`: {found[tool.name][1]} and {_name(point)} bring one each"
                )
            found[tool.name] = (tool, _name(point))
    return [found[name][0] for name in sorted(found)]


def _loaded(point: metadata.EntryPoint) -> list[Tool]:
    try:
        loaded = point.load()
    except Exception as error:
        raise ImportError(f"{_name(point)} does not load: {type(error).__name__}: {error}") from error
    tools = list(loaded) if isinstance(loaded, list | tuple) else [loaded]
    for tool in tools:
        if not isinstance(tool, Tool):
            raise TypeError(f"{_name(point)} gives a {type(tool).__name__}, which is no Tool")
    return tools


def _name(point: metadata.EntryPoint) -> str:
    return f"the entry point `{point.name} = {point.value}` of {GROUP}"
