"""HTTP sessions of the connector for tests: their waits take no time, and are recorded."""

from connectors.http.session import HttpSession
from connectors.http.settings import HttpSettings, SessionEnvironment
from dil.spi.connector import RequestValues
from dil.spi.coordination import Uncoordinated


def values(parameters=None, **variables):
    return RequestValues({**(parameters or {}), **variables}, parameters or {})


class Session(HttpSession):
    """A session whose waits take no time, and are recorded in ``waits``."""

    def __init__(
        self,
        uri,
        monotonic=lambda: 0.0,
        wall_clock=lambda: 0.0,
        coordinator=None,
        renewed=None,
        **members,
    ):
        self.waits = []
        around = SessionEnvironment(
            coordinator=coordinator or Uncoordinated(),
            renewed=renewed,
            monotonic=monotonic,
            sleep=self.waits.append,
            chance=lambda: 0.5,
            wall_clock=wall_clock,
        )
        super().__init__(HttpSettings(uri=uri, **members), around)

    def get(self, request=None):
        response = self.fetch(request or values())
        if response.body is None:
            return b""
        with response.body as body:
            return body.read()
