"""Reads the body of an answer as a stream: decoded and complete, or refused.

A compressed body marks its own end (RFC 1952 section 2.3.1, RFC 1951 section 3.2.3). The client
library does not check this mark: if a body broke off where the compressor had flushed, the library
would accept it as a shorter, valid body. So this module decodes the bytes itself. It refuses a body
that lacks the mark, whatever length the transfer stated for the body.
"""

from __future__ import annotations

import gzip
import io
import re
import time
import zlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, BinaryIO, cast

import urllib3

from connectors.causes import causes_of
from connectors.http.failures import TRICKLE_FIX, unknown_outcome
from dil.errors import SourceContractError, SourceError, TransientSourceError
from dil.extraction.preprocessing.limits import CountedStream, LimitedStream, ReceivedBytes
from dil.extraction.streams import ReadStream, has_zlib_header
from dil.model.job import ExpansionSpec
from dil.storage.whole_answers import TrickleError, WaitLimit, limit_waits

if TYPE_CHECKING:
    import requests

_CHUNK = 64 * 1024
_LENGTH = re.compile(r"\s*[0-9]+\s*(?:,\s*[0-9]+\s*)*")
# RFC 9110 section 14.4.
_PART = re.compile(r"\s*bytes +([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})\s*", re.IGNORECASE)
_GZIP = frozenset({"gzip", "x-gzip"})
_DEFLATE = "deflate"
# Codings in the IANA registry that this module does not decode and never requests.
_FOREIGN = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})
_USUAL_LIMIT = ExpansionSpec()


class BodyStream(ReadStream):
    """Reads an answer's body, decoding gzip and deflate on the way; closing frees the connection.

    ``read`` raises TransientSourceError for a body that ends early, a broken chunk, a reset, a
    time-out, and for compressed data that is damaged or lacks its end; the work unit then starts
    again. ``read`` raises the same error for a body that trickles: ``wait_s`` is the longest wait
    in seconds for each MiB of the body as it was sent, 0 for no limit. If ``is_repeatable`` is
    false, ``read`` raises UnknownOutcomeError instead: the source did the request, so the request
    is not repeated. ``read`` raises SourceContractError if the decoded size exceeds ``limit``.

    Raises:
        SourceContractError: (when made) the body has a coding that cannot be decoded, or is a part
            that the request did not ask for.
    """

    def __init__(
        self,
        response: requests.Response,
        shown: str,
        *,
        wait_s: float,
        is_repeatable: bool = True,
        limit: ExpansionSpec = _USUAL_LIMIT,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._response = response
        self._shown = shown
        self._is_repeatable = is_repeatable
        self._limit = limit
        self._refuse_part()
        limit_waits(response, WaitLimit(wait_s, monotonic))
        self._stream = self._decoding(cast("BinaryIO", _RawBody(response)))

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest."""
        try:
            return self._stream.read(size)
        except (urllib3.exceptions.HTTPError, OSError, EOFError, zlib.error) as error:
            trickle = next((c for c in causes_of(error) if isinstance(c, TrickleError)), None)
            if trickle is not None:
                raise self._broken(f"trickles, {trickle}", TRICKLE_FIX) from None
            raise self._broken(
                f"broke off ({_reason(error)})",
                "Check the source and the proxies on the way; smaller pages break off less often.",
            ) from None

    def _broken(self, what: str, fix: str) -> SourceError:
        whole = f"{self._shown}: the answer's body {what}"
        return TransientSourceError(whole, fix) if self._is_repeatable else unknown_outcome(whole)

    def close(self) -> None:
        """Give the connection back for reuse; drop it if the body was not read to its end."""
        if not self.closed:
            self._response.close()
        super().close()

    def _refuse_part(self) -> None:
        """Raise if the body is a part of the bytes, and the request has no Range of the job's.

        APIs say in other units which rows a page has (``items 0-24/319``), or in none.
        """
        answer = self._response
        is_partial = answer.status_code == HTTPStatus.PARTIAL_CONTENT
        if not is_partial or "Range" in answer.request.headers:
            return
        part = _PART.fullmatch(answer.headers.get("Content-Range") or "")
        if part is None:
            return
        first, last, size = map(int, part.groups())
        if (first, last + 1) != (0, size):
            self.close()
            raise SourceContractError(
                f"{self._shown}: the answer's body is only a part, the bytes {first} to {last} of"
                f" {size}, and the request did not ask for a part",
                "Check the source, and the caches and proxies on the way. If the job wants only"
                " that part, let it send a Range header (ms.http.request.headers).",
            )

    def _decoding(self, raw: BinaryIO) -> BinaryIO:
        """Return the stream that removes the codings, the last one first."""
        text = self._response.headers.get("Content-Encoding") or ""
        received = ReceivedBytes()
        came = stream = cast("BinaryIO", CountedStream(raw, received))
        for coding in reversed([each.strip().lower() for each in text.split(",")]):
            if coding in _FOREIGN:
                self.close()
                raise SourceContractError(
                    f"{self._shown}: the body's Content-Encoding is {coding},"
                    " which is not supported",
                    "Leave Accept-Encoding out of ms.http.request.headers: gzip and deflate are"
                    " asked for by default.",
                )
            if coding in _GZIP:
                stream = cast("BinaryIO", gzip.GzipFile(fileobj=stream, mode="rb"))
            elif coding == _DEFLATE:
                stream = cast("BinaryIO", _InflatedBody(stream))
        if stream is came:
            return raw
        name = f"{self._shown}: decoding {text}"
        return cast("BinaryIO", LimitedStream(stream, name, received, self._limit))


def marks_its_end(headers: Mapping[str, str]) -> bool:
    """Return whether the transfer or the coding of a body says where it ends (RFC 9112, 6.3).

    The body of another answer ends when the connection ends, also if that broke.
    """
    coded = (headers.get("Content-Encoding") or "").lower().split(",")
    return (
        bool(_LENGTH.fullmatch(headers.get("Content-Length") or ""))
        or "chunked" in (headers.get("Transfer-Encoding") or "").lower()
        or not {*_GZIP, _DEFLATE}.isdisjoint(each.strip() for each in coded)
    )


class _RawBody(ReadStream):
    """The bytes of the body without the framing of the transfer, not decoded yet."""

    def __init__(self, response: requests.Response) -> None:
        self._raw: urllib3.response.HTTPResponse = response.raw

    def read(self, size: int = -1, /) -> bytes:
        """Return ``size`` bytes, fewer only at the end; -1 means all the rest."""
        found = io.BytesIO()  # ``getvalue`` returns its content without a copy.
        left = size
        while left and (piece := self._some(_CHUNK if size < 0 else left)):
            found.write(piece)
            left -= len(piece) if size > 0 else 0
        return found.getvalue()

    def _some(self, size: int) -> bytes:
        return self._raw.read1(size, decode_content=False) or b""  # None once the body is closed.


class _InflatedBody(ReadStream):
    """The content of a deflate stream, with the zlib frame of RFC 9110 or without it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._inflater = zlib.decompressobj()
        self._begun = False
        self._left = b""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; EOFError if the stream ends before its content does."""
        if size < 0:
            return b"".join(iter(lambda: self._some(_CHUNK), b""))
        return self._some(size) if size else b""

    def _some(self, size: int) -> bytes:
        while not self._inflater.eof:
            packed = self._left or self._stream.read(_CHUNK)
            if not packed and not self._begun:
                return b""  # An empty body has no content to compress.
            if not self._begun and not has_zlib_header(packed):
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            self._begun = True
            found = self._inflater.decompress(packed, size)
            self._left = self._inflater.unconsumed_tail
            if found:
                return found
            if not packed and not self._inflater.eof:
                raise EOFError("compressed data ended before its end-of-stream marker")
        # Read to the end, so that the connection can be used again; bytes behind the content are
        # ignored.
        while self._stream.read(_CHUNK):
            pass
        return b""


def _reason(error: Exception) -> str:
    """Return the reason why a body broke off, without body or address."""
    if isinstance(error, EOFError):
        return "the compressed data has no end"
    if isinstance(error, zlib.error | gzip.BadGzipFile):
        return "the compressed data is damaged"
    return type(error).__name__
