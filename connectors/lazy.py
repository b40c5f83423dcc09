"""Loads connectors late: planning imports the packages of all connectors for their sections."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def connector_of(package: str, name: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package, which imports the connector at its first use."""

    def found(asked: str) -> object:
        if asked != name:
            raise AttributeError(f"module {package!r} has no attribute {asked!r}")
        return getattr(import_module(f"{package}.connector"), name)

    return found
