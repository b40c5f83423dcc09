"""A server that answers in a thread of the test's own process."""

from __future__ import annotations

import socketserver
import threading
from typing import Self


class InThread:
    """Serves while a ``with`` block runs; a subclass sets ``_server``, bound to a free port."""

    _server: socketserver.TCPServer

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        """Return the port that the server listens at."""
        return int(self._server.server_address[1])
