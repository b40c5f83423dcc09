"""Limits the output of preprocessors: an archive bomb raises an error before the disk is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from dil.errors import SourceContractError
from dil.extraction.streams import ReadStream
from dil.model.job import ExpansionSpec


@dataclass(slots=True)
class ReceivedBytes:
    """The number of bytes received of one response, and the error that its stream has raised."""

    bytes: int = 0
    failure: Exception | None = None


class CountedStream(ReadStream):
    """Passes on a stream and counts its bytes; closing it closes the stream."""

    def __init__(self, stream: BinaryIO, received: ReceivedBytes) -> None:
        self._stream = stream
        self._received = received

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; -1 means all the rest."""
        try:
            data = self._stream.read(size)
        except Exception as error:
            self._received.failure = error
            raise
        self._received.bytes += len(data)
        return data

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


class LimitedStream(ReadStream):
    """The output of one preprocessor, limited by the job and by the number of received bytes."""

    def __init__(
        self, stream: BinaryIO, name: str, received: ReceivedBytes, limit: ExpansionSpec
    ) -> None:
        self._stream = stream
        self._name = name
        self._received = received
        self._limit = limit
        self._made = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes; -1 means all the rest.

        Raises:
            SourceContractError: the preprocessor has made too many bytes.
        """
        if size < 0:
            return self.readall()
        data = self._stream.read(size)
        self._made += len(data)
        limit = self._limit
        if limit.bytes is not None and self._made > limit.bytes:
            raise self._too_much(f"{limit.bytes:,} bytes", "ms.extract.expansion.max.bytes")
        received = self._received.bytes
        if limit.ratio is not None and self._made > max(limit.floor, limit.ratio * received):
            raise self._too_much(
                f"{limit.ratio} times the {received:,} bytes that it came from",
                "ms.extract.expansion.max.ratio",
            )
        return data

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()

    def _too_much(self, limit: str, key: str) -> SourceContractError:
        return SourceContractError(
            f"{self._name} made more than {limit} and was stopped",
            f"If such data is expected, raise {key}; 0 means no limit.",
        )
