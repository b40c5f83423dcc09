"""Reads the chain's records of a dataset: its schema (rule U20), and its changelog."""

from __future__ import annotations

from collections.abc import Mapping

from dil.model.dataset import is_compaction
from dil.model.job import PublishingSpec
from dil.spi.state_store import StateStore


def recorded_schema(store: StateStore) -> str:
    """Return the schema of the rows published so far, one line per column; empty without one."""
    block = next(iter(store.blocks_of_kind("SetDataSchema")), None)
    event = None if block is None else block["event"]
    schema = event.get("schema") if isinstance(event, Mapping) else None
    return schema if isinstance(schema, str) else ""


def begins_changelog(spec: PublishingSpec, store: StateStore) -> bool:
    """Return whether the changelog of the next merge starts with all live rows.

    It does if the job keeps a changelog, and the last change of rows is in no changelog.
    """
    return spec.keeps_changelog and not _goes_on_with_changelog(store)


def _goes_on_with_changelog(store: StateStore) -> bool:
    """Return whether the last change of the dataset's rows is in its changelog.

    A compaction changes no rows, so blocks are read back to the last change of rows.
    """
    after: Mapping[str, object] = {}
    for block in store.blocks():
        event = block["event"]
        if not isinstance(event, Mapping):
            continue
        if is_compaction(str(event.get("act"))):
            after = {}  # This block merged the files of the earlier block.
        elif after:
            break
        if event.get("newData") is not None:
            after = event
    return "changelogData" in after
