"""What the chain of a dataset has recorded: its schema (rule U20), and its changelog."""

from __future__ import annotations

from collections.abc import Mapping

from dil.model.dataset import is_compaction
from dil.model.job import PublishingSpec
from dil.spi.state_store import StateStore


def recorded_schema(store: StateStore) -> str:
    """Return the schema of the rows published so far, one line a column; empty without one."""
    block = next(iter(store.blocks_of_kind("SetDataSchema")), None)
    event = None if block is None else block["event"]
    schema = event.get("schema") if isinstance(event, Mapping) else None
    return schema if isinstance(schema, str) else ""


def begins_changelog(spec: PublishingSpec, store: StateStore) -> bool:
    """Return whether the changelog of the next merge begins with all rows that are live.

    So it is where the job keeps one, and the last change of rows is in none.
    """
    return spec.keeps_changelog and not _goes_on_with_changelog(store)


def _goes_on_with_changelog(store: StateStore) -> bool:
    """Return whether the last change of the dataset's rows is in its changelog.

    A compaction changes none. Blocks are read down to that change.
    """
    after: Mapping[str, object] = {}
    for block in store.blocks():
        event = block["event"]
        if not isinstance(event, Mapping):
            continue
        if is_compaction(str(event.get("act"))):
            after = {}  # it put the files of the block behind it together
        elif after:
            break
        if event.get("newData") is not None:
            after = event
    return "changelogData" in after
