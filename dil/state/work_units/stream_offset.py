"""The position of a stream: a micro-batch's end offset, from the work-unit index.

The size of the offset is limited, however many work units there are. Above the frontier, the offset
lists the work units that the micro-batch changed. If these are too many, it has the digest of the
whole index.
"""

from __future__ import annotations

from collections.abc import Iterable

from dil.model.json import JsonObject
from dil.state.blocks.source_state import UnitRow, UnitSummary

MOST_OPEN = 2_000
_VERSION = 1


def offset_of(epoch: object, summary: UnitSummary, changed: Iterable[UnitRow]) -> JsonObject:
    """Return the offset after a commit; all time before ``done`` (epoch ms UTC) is committed."""
    done = summary.frontier
    offset = {
        "v": _VERSION,
        "epoch": epoch,
        "stateVersion": summary.version,
        "done": done,
    }
    progress = {
        row.signature: {"high": row.high}
        for row in changed
        if row.high is not None and (done is None or row.high > done)
    }
    if len(progress) > MOST_OPEN:
        return {**offset, "open": {}, "digest": summary.digest}  # type: ignore[dict-item]
    return {**offset, "open": progress}  # type: ignore[dict-item]
