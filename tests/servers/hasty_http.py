"""The HTTP connector for tests that must not wait: its waits take no time.

In a job file: ``source.class=tests.servers.hasty_http.HastyHttp``.
"""

from __future__ import annotations

from connectors.http import HttpConnector
from connectors.http.session import HttpSession
from connectors.http.settings import HttpSettings, SessionEnvironment
from dil.spi.connector import SessionContext


class HastyHttp(HttpConnector):
    """Sends what the HTTP connector sends, but without its waits."""

    def open(self, context: SessionContext) -> HttpSession:
        """Return a session that does not sleep."""
        around = SessionEnvironment(
            context.coordinator, context.renewed, sleep=lambda seconds: None
        )
        return HttpSession(HttpSettings.of(context.job), around)
