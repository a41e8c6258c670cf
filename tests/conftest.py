"""Fixtures by subject, and the order of the house: whatever needs the whole platform shares one worker's."""

import pytest

pytest_plugins = [
    "tests.support.mail",
    "tests.support.model",
    "tests.support.platform",
    "tests.support.servers",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "platform" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("platform"))
