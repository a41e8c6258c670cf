"""Tools of installed packages."""

from importlib import metadata
from types import ModuleType
from typing import Any

import pytest

from headrace.tools import Tool, installed
from headrace.tools.entry_points import GROUP


def named(name: str) -> Tool:
    return Tool(name=name, description="A tool.", parameters={}, function=print)


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a package whose entry points load to the given values."""

    def offered(**values: object) -> None:
        package = ModuleType("some_package")
        package.__dict__.update(values)
        monkeypatch.setitem(__import__("sys").modules, "some_package", package)
        points = [metadata.EntryPoint(name, f"some_package:{name}", GROUP) for name in values]
        points.append(metadata.EntryPoint("absent", "some_package:absent", "another.group"))
        monkeypatch.setattr(metadata, "entry_points", metadata.EntryPoints(points).select)

    return offered


def test_tools_of_all_packages_come_in_name_order(offer: Any) -> None:
    b, c, a, d = map(named, "bcad")
    offer(one=b, some=[c, a], others=(d,))

    assert installed() == [a, b, c, d]


def test_nothing_installed_gives_no_tools(offer: Any) -> None:
    offer()

    assert installed() == []


def test_entry_point_that_is_no_tool_is_named(offer: Any) -> None:
    offer(broken=[named("a"), print])

    with pytest.raises(
        TypeError, match=r"`broken = some_package:broken` .* gives a builtin_function_or_method"
    ):
        installed()


def test_entry_point_that_does_not_load_is_named(offer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    offer()
    gone = metadata.EntryPoint("gone", "some_package:gone", GROUP)
    monkeypatch.setattr(metadata, "entry_points", metadata.EntryPoints([gone]).select)

    with pytest.raises(ImportError, match=r"`gone = some_package:gone` .* does not load: AttributeError"):
        installed()


def test_two_tools_of_one_name_are_refused_with_both_places(offer: Any) -> None:
    offer(x=named("a"), y=named("a"))

    with pytest.raises(TypeError, match=r"two tools are named `a`: .*`x = .* and .*`y = "):
        installed()
