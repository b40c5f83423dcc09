"""HTTP and HTTPS: ``source.class=connectors.http.HttpConnector``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connectors.http.connector import HttpConnector

__all__ = ["HttpConnector"]


def __getattr__(name: str) -> object:
    """Import the connector when it is asked for: its section is read without it."""
    if name != "HttpConnector":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from connectors.http.connector import HttpConnector

    return HttpConnector
