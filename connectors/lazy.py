"""Packages that are imported without their connector: planning reads the sections of all."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def connector_of(package: str, name: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package: it imports the connector when it is asked for."""

    def found(asked: str) -> object:
        if asked != name:
            raise AttributeError(f"module {package!r} has no attribute {asked!r}")
        return getattr(import_module(f"{package}.connector"), name)

    return found
