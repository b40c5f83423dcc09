"""Shows a job's stream in the plan: its micro-batches, and its position."""

from __future__ import annotations

from math import ceil

from dil.model.job import QuerySpec
from dil.model.stream import StreamSpec, StreamState
from dil.observe.progress import counted, human_seconds


def stream_json(
    spec: StreamSpec, limit: int | None, known: StreamState | None
) -> dict[str, object]:
    """Return the stream as JSON; ``limit`` is the most work units of a micro-batch."""
    size = {
        "max_work_units": _size(spec, limit),
        "max_rows": spec.max_rows,
        "max_bytes": spec.max_bytes,
    }
    return _json(spec, size, known)


def query_stream_json(
    spec: StreamSpec, query: QuerySpec, known: StreamState | None
) -> dict[str, object]:
    """Return the stream of a derived dataset as JSON."""
    return _json(spec, {"max_blocks": query.max_blocks, "max_rows": query.max_rows}, known)


def _json(
    spec: StreamSpec, size: dict[str, int | None], known: StreamState | None
) -> dict[str, object]:
    batch = None if known is None else known.batch
    return {
        "mode": spec.mode.value,
        "trigger": "available_now" if spec.every_ms is None else spec.every_ms,
        **size,
        "checkpoint": spec.checkpoint_dir,
        "epoch": None if batch is None else batch.epoch,
        "next_batch": 0 if batch is None else batch.number + 1,
    }


def stream_line(spec: StreamSpec, limit: int | None, due: int, known: StreamState | None) -> str:
    """Return one sentence on how ``due`` work units are read in micro-batches."""
    size = _size(spec, limit)
    cut = "one micro-batch" if size is None else f"micro-batches of {size:,} at most"
    limits = (spec.max_rows, "row"), (spec.max_bytes, "byte")
    limited = [counted(most, noun) for most, noun in limits if most is not None]
    if limited:
        cut = f"micro-batches of about {' and '.join(limited)}"
    elif size is not None and due > size:
        cut = f"{ceil(due / size):,} {cut}"
    return _line(spec, f"{counted(due, 'work unit')} due, in {cut}", known)


def query_stream_line(spec: StreamSpec, query: QuerySpec, known: StreamState | None) -> str:
    """Return one sentence on how new rows of a derived dataset's inputs are taken."""
    limits = (query.max_blocks, "block"), (query.max_rows, "row")
    limited = [counted(most, noun) for most, noun in limits if most is not None]
    cut = "one micro-batch takes all new rows"
    if limited:
        cut = f"a micro-batch takes at most {' and '.join(limited)} of each input"
    return _line(spec, cut, known)


def _line(spec: StreamSpec, what: str, known: StreamState | None) -> str:
    how = "until all is read"
    if spec.every_ms is not None:
        how = f"as a service that looks every {human_seconds(spec.every_ms / 1000)}"
    begins = "the first one begins an epoch"
    if known is not None:
        begins = f"the next is {known.batch.number + 1} of epoch {known.batch.epoch}"
    return f"A stream: {what}, {how}; {begins}."


def _size(spec: StreamSpec, limit: int | None) -> int | None:
    return min((each for each in (spec.max_units, limit) if each is not None), default=None)
