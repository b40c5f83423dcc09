"""The memory of an event-time watermark as bytes: an Arrow stream, a row for each stream.

Streams are sorted by name, so that equal memories are equal bytes, whose hash a chain repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from dil.errors import ConfigError
from dil.eventtime.streams import EventStream
from dil.model.event_time import Strategy

_FORMAT = 1
_MARK = b"dil.event_watermark"
_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("largest", pa.int64(), nullable=False),
        pa.field("watermark", pa.int64(), nullable=False),
        pa.field("last_seen", pa.int64(), nullable=False),
        pa.field("delays", pa.list_(pa.int32()), nullable=False),
    ]
)
_FIX = "Pass the bytes that state() returned; without them, the last watermark as floor."


@dataclass(frozen=True, slots=True)
class StoredWatermark:
    """All that goes on after a restart; times in epoch ms UTC.

    ``watermark`` is the one after the last batch and ``previous`` the one that was before it.
    """

    strategy: Strategy
    watermark: int | None
    previous: int | None
    streams: Mapping[str, EventStream]


def encoded(stored: StoredWatermark) -> bytes:
    """Return the bytes of a memory."""
    named = sorted(stored.streams.items())
    kept = [each for _, each in named]
    offsets = [0]
    for each in kept:
        offsets.append(offsets[-1] + len(each.delays))
    delays = pa.concat_arrays([each.delays for each in kept]) if kept else pa.array([], pa.int32())
    columns = [
        pa.array([name for name, _ in named], pa.string()),
        pa.array([each.rows for each in kept], pa.int64()),
        pa.array([each.largest for each in kept], pa.int64()),
        pa.array([each.watermark for each in kept], pa.int64()),
        pa.array([each.last_seen for each in kept], pa.int64()),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), delays),
    ]
    facts = {
        _MARK: str(_FORMAT).encode(),
        b"strategy": stored.strategy.encode(),
        b"watermark": _text(stored.watermark),
        b"previous": _text(stored.previous),
    }
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, _SCHEMA.with_metadata(facts), options=options) as writer:
        writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return cast("bytes", sink.getvalue().to_pybytes())


def decoded(state: bytes) -> StoredWatermark:
    """Return the memory that bytes hold.

    Raises:
        ConfigError: they hold none, or one that a newer release wrote.
    """
    try:
        with pa.ipc.open_stream(state) as reader:
            table = reader.read_all()
    except (pa.ArrowInvalid, OSError, TypeError) as error:
        raise ConfigError.single("state", f"is no event watermark: {error}", _FIX) from error
    facts = table.schema.metadata or {}
    if _MARK not in facts:
        raise ConfigError.single("state", "is no event watermark", _FIX)
    if facts[_MARK] != str(_FORMAT).encode():
        what = f"has the format {facts[_MARK].decode()}, and this release reads {_FORMAT}"
        raise ConfigError.single("state", what, "Use the release that wrote it, or a newer one.")
    delays = table.column("delays").combine_chunks()
    streams = {
        str(row["partition"]): EventStream(
            row["rows"],
            row["largest"],
            row["watermark"],
            row["last_seen"],
            delays[index].values,
        )
        for index, row in enumerate(table.drop_columns(["delays"]).to_pylist())
    }
    return StoredWatermark(
        Strategy(facts[b"strategy"].decode()),
        _number(facts[b"watermark"]),
        _number(facts[b"previous"]),
        streams,
    )


def _text(watermark: int | None) -> bytes:
    return b"" if watermark is None else str(watermark).encode()


def _number(text: bytes) -> int | None:
    return int(text) if text else None
