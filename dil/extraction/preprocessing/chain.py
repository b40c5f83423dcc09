"""The preprocessors of one attempt, between connector and extractor (docs/preprocessors.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, cast

from dil.errors import DilError, PluginFailureError, SourceContractError
from dil.extraction.preprocessing.limits import CountedStream, LimitedStream, ReceivedBytes
from dil.extraction.streams import ReadStream
from dil.model.job import ExtractionSpec, PreprocessorSpec
from dil.spi.connector import Response
from dil.spi.extractor import Extractor, Page
from dil.spi.plugin_failures import plugin_failure
from dil.spi.preprocessor import Preprocessor, PreprocessorContext
from dil.spi.registry import load

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK = 1 << 20
# Content types of packed bytes; they do not show the format inside.
_PACKED = frozenset(
    {
        "application/octet-stream", "binary/octet-stream", "application/gzip",
        "application/x-gzip", "application/zip", "application/x-zip-compressed",
        "application/x-bzip2", "application/zstd", "application/x-xz", "application/x-tar",
        "application/zlib", "application/pgp-encrypted", "application/x-compressed",
    }
)  # fmt: skip


@contextmanager
def preprocessed(spec: ExtractionSpec, extractor: Extractor) -> Iterator[Extractor]:
    """Yield an extractor that reads responses through the job's preprocessors.

    Preprocessors that prepare output come after all others; otherwise they run in the listed order.

    Raises:
        PluginFailureError: a class cannot be made.
    """
    if not spec.preprocessors:
        yield extractor
        return
    chain = _Chain(spec)
    try:
        yield _Preprocessed(spec, extractor, chain)
    finally:
        chain.close()


class _Chain:
    """One instance of each preprocessor; streams run through all of them."""

    def __init__(self, spec: ExtractionSpec) -> None:
        self._limit = spec.expansion
        self._open: _WholeStream | None = None
        made = [(each.name, _made(each)) for each in spec.preprocessors]
        self._steps: Sequence[tuple[str, Preprocessor]] = sorted(
            made, key=lambda step: step[1].is_output
        )

    def stream(self, body: BinaryIO) -> _WholeStream:
        """Return the stream of a body behind all preprocessors."""
        try:
            stream = self._through(body)
        except BaseException:
            body.close()
            raise
        self._open = whole = _WholeStream(stream, body)
        return whole

    def _through(self, body: BinaryIO) -> BinaryIO:
        received = ReceivedBytes()
        stream = cast("BinaryIO", CountedStream(body, received))
        for name, step in self._steps:
            place = _Place(name, received)
            with place.named():
                made = step.process(stream)
            limited = LimitedStream(made, name, received, self._limit)
            stream = cast("BinaryIO", _NamedStream(limited, place))
        return stream

    def close(self) -> None:
        """End the current stream and release the resources of the preprocessors."""
        try:
            if self._open is not None:
                self._open.end()
        finally:
            for _, step in self._steps:
                step.close()


class _Preprocessed(Extractor):
    """An extractor behind preprocessors."""

    def __init__(self, spec: ExtractionSpec, extractor: Extractor, chain: _Chain) -> None:
        super().__init__(spec)
        self._extractor = extractor
        self._chain = chain

    def extract(self, response: Response) -> Page:
        """Return the page of a response; the page ends when each preprocessor has read to the end.

        Raises:
            SourceContractError: from the extractor, or because a preprocessor cannot read the body.
        """
        if response.body is None:
            return self._extractor.extract(response)
        with _located(response.location):
            stream = self._chain.stream(response.body)
        checks = response.checks_content_type and response.content_type not in _PACKED
        read = replace(response, body=cast("BinaryIO", stream), checks_content_type=checks)
        try:
            with _located(response.location):
                page = self._extractor.extract(read)
        except BaseException:
            stream.end()
            raise
        page.batches = _to_the_end(page.batches, stream, response.location)
        return page


def _to_the_end(
    batches: Iterator[pa.RecordBatch], stream: _WholeStream, where: str
) -> Iterator[pa.RecordBatch]:
    """Yield the batches, then read the rest of the stream, because the rest may be damaged."""
    try:
        with _located(where):
            yield from batches
            stream.drain()
    finally:
        stream.end()


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Name the request in errors that do not name it yet."""
    try:
        yield
    except SourceContractError as error:
        if where in error.message or error.refused is not None:
            raise
        raise SourceContractError(f"{where}: {error.message}", error.fix) from error


class _WholeStream(ReadStream):
    """A stream that outlives the extractor's ``close``, so that its end can be seen."""

    def __init__(self, stream: BinaryIO, body: BinaryIO) -> None:
        self._stream = stream
        self._body = body
        self._is_ended = False

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; -1 means all the rest."""
        return self._stream.read(size)

    def drain(self) -> None:
        """Read to the end."""
        while self._stream.read(_CHUNK):
            pass

    def end(self) -> None:
        """Close the streams beneath, whether they close each other or not; safe to call twice."""
        if not self._is_ended:
            self._is_ended = True
            try:
                self._stream.close()
            finally:
                self._body.close()


@dataclass(frozen=True, slots=True)
class _Place:
    """One preprocessor at work: its name, and the bytes that it has received so far."""

    name: str
    received: ReceivedBytes

    @contextmanager
    def named(self) -> Iterator[None]:
        """Translate errors of the preprocessor; errors of the stream beneath it pass unchanged."""
        try:
            yield
        except Exception as error:
            if error is self.received.failure:
                raise
            self.received.failure = found = self._translated(error)
            raise found from error

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, SourceContractError):
            return SourceContractError(f"{self.name}: {error.message}", error.fix)
        if isinstance(error, DilError):
            return error
        return plugin_failure(f"preprocessor {self.name} failed", error)


class _NamedStream(ReadStream):
    """The output of one preprocessor; its failures name it and the request."""

    def __init__(self, stream: LimitedStream, place: _Place) -> None:
        self._stream = stream
        self._place = place

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; -1 means all the rest."""
        with self._place.named():
            return self._stream.read(size)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


def _made(spec: PreprocessorSpec) -> Preprocessor:
    with _Place(spec.name, ReceivedBytes()).named():
        made = load(spec.filter)(PreprocessorContext(spec.name, spec.parameters))
    if not isinstance(made, Preprocessor):
        raise PluginFailureError(
            f"{spec.filter} is not a Preprocessor", "Inherit dil.spi.preprocessor.Preprocessor."
        )
    return made
