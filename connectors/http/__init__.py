"""HTTP and HTTPS: ``source.class=connectors.http.HttpConnector``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.lazy import connector_of

if TYPE_CHECKING:
    from connectors.http.connector import HttpConnector

__all__ = ["HttpConnector"]
__getattr__ = connector_of(__name__, "HttpConnector")
