"""Which work units runs and operators have changed since a block, as the job's chain tells."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dil.model.json import JsonObject
from dil.model.work_unit import unit_hash
from dil.operator.acts.put_together import hash_in
from dil.publishing import compacted
from dil.state.blocks.source_state import FAILED


def touched_since(blocks: Iterable[JsonObject], head: str) -> frozenset[str]:
    """Return the hashes of work units that were read anew, forgotten or published since.

    A reading that failed changed no rows, and ``dil compact`` keeps them: neither counts.

    Args:
        blocks: The blocks of the job's chain, newest first; read down to ``head``.
        head: The hash of a block; empty, or of a chain that was lost, all blocks count.
    """
    found: set[str] = set()
    after: set[str] = set()
    for block in blocks:
        event: Any = block["event"]
        if event["kind"] == "ResetState" and event.get("act") == compacted.VERB:
            after = set()
        found |= after
        if block["hash"] == head:
            return frozenset(found)
        after = _touched(event)
    return frozenset(found | after)


def _touched(event: Any) -> set[str]:  # noqa: ANN401 - the JSON edge
    """Return the hashes of the work units in one block."""
    state = event.get("newSourceState")
    delta = state["value"].get("delta", ()) if state else ()
    found = {unit_hash(str(row["sig"])) for row in delta if row.get("status") != FAILED}
    data = event.get("newData") or {}
    files = (*(data.get("parts") or ()), *(data.get("removes") or ()))
    return found | {hash_in(str(part["path"])) for part in files}
