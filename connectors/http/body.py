"""The body of an answer as a plain binary stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3

from dil.errors import TransientSourceError
from dil.extraction.streams import ReadStream

if TYPE_CHECKING:
    import requests


class BodyStream(ReadStream):
    """Reads an answer's body, decoding gzip and deflate on the way; closing frees the connection.

    A body that ends early, a broken chunk, a reset, a time-out and a damaged compression are all
    TransientSourceError: the work unit starts again.
    """

    def __init__(self, response: requests.Response, shown: str) -> None:
        self._response = response
        self._shown = shown

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, all that is left with -1."""
        raw: urllib3.response.BaseHTTPResponse = self._response.raw
        try:
            return raw.read(None if size < 0 else size, decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise TransientSourceError(
                f"{self._shown}: the answer's body broke off ({type(error).__name__})",
                "The work unit is tried again from its start.",
            ) from None

    def close(self) -> None:
        """Give the connection back, or drop it when the body was not read to its end."""
        if not self.closed:
            self._response.close()
        super().close()
