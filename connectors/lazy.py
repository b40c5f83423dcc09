"""Loads connectors late: planning imports all their packages, but only for the sections."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def connector_of(package: str, name: str) -> Callable[[str], object]:
    """Return a ``__getattr__`` for a package that imports the connector when it is first used."""

    def found(asked: str) -> object:
        if asked != name:
            raise AttributeError(f"module {package!r} has no attribute {asked!r}")
        return getattr(import_module(f"{package}.connector"), name)

    return found
