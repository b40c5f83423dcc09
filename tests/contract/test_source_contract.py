"""The contract of sources fails a connector that cannot work by the connector's own error."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest

from dil.errors import AuthenticationError, DilError, PluginFailureError, TransientSourceError
from dil.spi.connector import ByteSession, Connector, RequestValues, Response, SessionContext
from dil.testing.source_contract import SourceContract, SourceHarness
from dil.testing.trial import Trial


class _Session(ByteSession):
    def fetch(self, values: RequestValues) -> Response:
        return Response(io.BytesIO(b'[{"id": 0}]'), content_type="application/json")


class Sound(Connector):
    def open(self, context: SessionContext) -> ByteSession:
        return _Session()


class Locked(Connector):
    def open(self, context: SessionContext) -> ByteSession:
        raise AuthenticationError("no session", "Check the password.")


class Defective(Connector):
    def open(self, context: SessionContext) -> ByteSession:
        class Session(_Session):
            def fetch(self, values: RequestValues) -> Response:
                raise ValueError("a mistake of the connector")

        return Session()


class Stuck(Connector):
    def open(self, context: SessionContext) -> ByteSession:
        class Session(_Session):
            def close(self) -> None:
                raise TransientSourceError("the session cannot be closed", "Try again.")

        return Session()


class _Harness(SourceHarness):
    mistakes = ()

    def __init__(self, connector: type[Connector]) -> None:
        self._connector = connector

    def fill(self, rows: int) -> Mapping[str, str]:
        del rows
        name = f"{self._connector.__module__}:{self._connector.__qualname__}"
        return {"source.class": name, "ms.source.uri": "place"}

    def gone(self) -> Mapping[str, str]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("connector", "error"),
    [
        (Locked, AuthenticationError),
        (Defective, PluginFailureError),
        (Stuck, TransientSourceError),
    ],
)
def test_the_check_of_open_files_shows_the_error_of_a_connector_that_cannot_work(
    connector: type[Connector], error: type[DilError], tmp_path: Path
) -> None:
    with pytest.raises(error):
        SourceContract().test_close_releases_all(_Harness(connector), Trial(tmp_path))


def test_the_check_of_open_files_passes_a_connector_that_keeps_none(tmp_path: Path) -> None:
    SourceContract().test_close_releases_all(_Harness(Sound), Trial(tmp_path))
