"""The files that the whole chain of a dataset records: live files, late rows, the changelog."""

from __future__ import annotations

from collections.abc import Iterator

from dil.errors import StateError
from dil.model.dataset import PublishedFile, is_compaction
from dil.model.job import PublishingSpec
from dil.spi.state_store import StateStore
from dil.state.blocks.block import read_block
from dil.state.blocks.canonical import SHA2_256
from dil.state.blocks.events import ConfigEvent, DataEvent, SideFile, SliceFile


def live_parts(store: StateStore, *, are_compacted: bool = True) -> dict[str, SliceFile]:
    """Return, by URI, the files in the chain that no later block removed.

    Args:
        store: The store of the chain.
        are_compacted: Unset: in place of the files that a compaction wrote, return the files that
            it put together, unless a later block removed one of the files that it wrote.

    Raises:
        StateError: a block cannot be read.
    """
    live: dict[str, SliceFile] = {}
    settled: set[str] = set()
    for event, is_of_compaction in _data_events(store):
        if event.new_data is not None:
            parts = event.new_data.parts or ()
            is_whole = settled.isdisjoint(part.path for part in parts)
            if is_of_compaction and is_whole and not are_compacted:
                continue
            live.update({part.path: part for part in parts if part.path not in settled})
            settled.update(part.path for part in (*parts, *event.new_data.removes))
    return live


def late_parts(store: StateStore) -> dict[str, SideFile]:
    """Return, by URI, all files of late rows that the chain ever had, also the deleted ones.

    Raises:
        StateError: a block cannot be read.
    """
    found: dict[str, SideFile] = {}
    for event, _ in _data_events(store):
        if event.late is not None:
            found.update({each.path: each for each in event.late.parts})
    return found


def file_of(part: SliceFile | SideFile) -> PublishedFile:
    """Return a file of the chain without its work unit and run, which the chain does not keep."""
    digest = part.physical_hash.removeprefix(SHA2_256)
    label = part.timelabel if isinstance(part, SliceFile) else None
    return PublishedFile(part.path, "", part.rows, part.size, digest, "", label)


def _data_events(store: StateStore) -> Iterator[tuple[DataEvent, bool]]:
    """Yield the events with rows of a chain, newest first, and whether each is of a compaction."""
    later: DataEvent | None = None  # the block before it names its act, if it has one
    for fields in store.blocks():
        try:
            event = read_block({name: fields[name] for name in fields if name != "hash"}).event
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"block {fields.get('sequenceNumber')} of the chain cannot be read: {error!r}",
                "`dil state verify` lists what is wrong.",
            ) from error
        if later is not None:
            act = str(event.body.get("act", "")) if isinstance(event, ConfigEvent) else ""
            yield later, is_compaction(act)
        later = event if isinstance(event, DataEvent) else None
    if later is not None:
        yield later, False


def breaks_changelog(event: DataEvent, act: str) -> bool:
    """Return whether an event changes rows and has no changelog of these changes.

    A compaction changes no row.
    ``act`` is the verb of the act whose files the event has, empty for a run.
    """
    return event.new_data is not None and event.changelog is None and not is_compaction(act)


def begins_changelog(spec: PublishingSpec, store: StateStore) -> bool:
    """Return whether the changelog of the next merge begins with all rows that are live.

    It does if the job keeps a changelog, and no changelog has the last change of rows. Blocks are
    read back to that change.
    """
    if not spec.keeps_changelog:
        return False
    later: DataEvent | None = None  # the block before it names its act, if it has one
    for event in (read_block(block).event for block in store.blocks()):
        act = str(event.body.get("act", "")) if isinstance(event, ConfigEvent) else ""
        if later is not None and (later.changelog is not None or breaks_changelog(later, act)):
            break
        later = event if isinstance(event, DataEvent) and event.new_data is not None else None
    return later is None or later.changelog is None
