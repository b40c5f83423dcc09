"""Whether the changelog of a dataset has every change of its rows since it began.

A block that changes rows and does not record the changes breaks the changelog. A compaction changes
no row.
"""

from __future__ import annotations

from dil.model.dataset import is_compaction
from dil.model.job import PublishingSpec
from dil.spi.state_store import StateStore
from dil.state.blocks.block import read_block
from dil.state.blocks.events import ConfigEvent, DataEvent


def breaks_changelog(event: DataEvent, act: str) -> bool:
    """Return whether an event changes rows and has no changelog of these changes.

    ``act`` is the verb of the act whose files the event has, empty for a run.
    """
    return event.new_data is not None and event.changelog is None and not is_compaction(act)


def begins_changelog(spec: PublishingSpec, store: StateStore) -> bool:
    """Return whether the changelog of the next merge begins with all rows that are live.

    It does if the job keeps a changelog, and no changelog has the last change of rows.
    """
    return spec.keeps_changelog and not _has_last_change(store)


def _has_last_change(store: StateStore) -> bool:
    """Return whether the last change of rows is in a changelog; reads blocks back to that one."""
    later: DataEvent | None = None  # the block before it names its act, if it has one
    for event in (read_block(block).event for block in store.blocks()):
        act = str(event.body.get("act", "")) if isinstance(event, ConfigEvent) else ""
        if later is not None and (later.changelog is not None or breaks_changelog(later, act)):
            break
        later = event if isinstance(event, DataEvent) and event.new_data is not None else None
    return later is not None and later.changelog is not None
