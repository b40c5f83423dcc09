"""Where a stream is: the offset at which a micro-batch ends, by the work-unit index.

It is bounded, however many work units there are: of those above the frontier it names the ones that
the micro-batch changed, or, where these are too many, the digest of the whole index.
"""

from __future__ import annotations

from collections.abc import Iterable

from dil.model.json import JsonObject
from dil.state.blocks.source_state import UnitRow, UnitSummary

MOST_OPEN = 2_000
_VERSION = 1


def offset_of(epoch: object, summary: UnitSummary, changed: Iterable[UnitRow]) -> JsonObject:
    """Return the offset after a commit; all time below ``done`` (epoch ms UTC) is committed."""
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
