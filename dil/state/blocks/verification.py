"""Rechecks a whole chain: hashes, links, all rules, and the index against the blocks.

Memory grows with the number of work units (about 150 bytes each), not with the number of blocks:
the store yields the newest blocks first and the rules need the oldest first, so blocks are buffered
in a temporary file.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dil.errors import StateError
from dil.model.closed_labels import CLOSED_LABELS, ClosedLabels, LabelWindow
from dil.model.dataset import PublishedFile, UnitEntry
from dil.model.json import JsonObject
from dil.spi.state_store import StateStore
from dil.state.blocks.block import Block, ChainHead, advance, read_block
from dil.state.blocks.canonical import SHA2_256, canonical, is_hash_of
from dil.state.blocks.events import (
    CLOSE_BOOKS,
    REOPEN_BOOKS,
    ConfigEvent,
    DataEvent,
    Event,
    SideFile,
    SliceFile,
)
from dil.state.blocks.input_validation import InputChain, input_violations
from dil.state.blocks.source_state import KIND, UnitSummary, is_removal, row_hash
from dil.state.blocks.validation import Violation, violations
from dil.text.windows import label_start

_SPOOL_BYTES = 16 * 1024 * 1024
_MAX_PROBLEMS = 100
_MAX_READINGS = 3


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The findings of a check; each of ``problems`` begins with a code if a rule is broken.

    ``files`` is the number of files that no later block removed. At most a hundred problems are
    listed.
    """

    blocks: int
    files: int
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Return whether the check found no problem."""
        return not self.problems


def verify_chain(
    store: StateStore,
    *,
    size_of: Callable[[str], int | None] | None = None,
    hash_of: Callable[[str], str | None] | None = None,
    listed: Callable[[], Mapping[str, PublishedFile] | None] | None = None,
    is_of_files: bool = True,
    chains: Mapping[str, InputChain] = MappingProxyType({}),
) -> ChainReport:
    """Return the problems of a job's blocks, from first to last, of its index and other tables.

    If a run commits during the check, index and files are newer than the blocks that were read:
    then everything is read again, at most three times. Files that a begun publish removes may exist
    or not, once the manifest no longer lists them.

    Args:
        store: The job's store; it is only read.
        size_of: Returns the size in bytes of a file by its URI, None if it is gone. If given, the
            files that no later block removed must exist with their recorded size (V20), and so must
            files of late rows beside the dataset.
        hash_of: Returns the SHA-256 of a file, 64 hex digits, None if it is gone. If given, files
            of the right size must also have their recorded hash.
        listed: Returns the live files in the dataset's manifest, by URI, None if another job
            publishes there, too. The chain must have all of them, or it was truncated. It is called
            at the beginning of each reading, and again if files are gone that a begun publish
            removes.
        is_of_files: Whether rows are in files. Late rows always are.
        chains: The chains of a derived dataset's inputs, by name. For a block with another input,
            only the rules about the dataset's own chain are checked.
    """
    report = ChainReport(0, 0, ())
    for _ in range(_MAX_READINGS):
        try:
            head = store.head()
            report = _read(store, head, _Files(size_of, hash_of, listed, is_of_files), chains)
            if store.head() == head:
                break
        except StateError as error:
            return ChainReport(0, 0, (error.message,))
    return report


@dataclass(frozen=True, slots=True)
class _Files:
    """The files in the dataset's folder, see ``verify_chain``."""

    size_of: Callable[[str], int | None] | None
    hash_of: Callable[[str], str | None] | None
    listed: Callable[[], Mapping[str, PublishedFile] | None] | None
    is_of_files: bool


def _read(
    store: StateStore,
    head: JsonObject | None,
    files: _Files,
    chains: Mapping[str, InputChain],
) -> ChainReport:
    check = _Check(chains)
    listed = None if files.listed is None else files.listed()
    for fields in _oldest_first(store.blocks()):
        check.block(fields)
    check.head(head)
    if check.blocks:
        check.index(store.unit_entries())
        check.stored_closed_labels(ClosedLabels.of(store.checkpoint(CLOSED_LABELS)))
    check.problems += store.problems({path: part.start for path, part in check.live.items()})
    wrong: dict[str, str] = {}
    if files.size_of is not None:
        parts = check.live.values() if files.is_of_files else ()
        for part in (*parts, *check.late.values(), *check.changes.values()):
            if problem := _wrong(part, files.size_of, files.hash_of):
                wrong[part.path] = problem
    # The intent is read after the files: it explains what a publish changed in them so far.
    intent = store.pending_intent()
    if listed is not None and intent is None:
        check.manifest(listed, store)
    leaving = frozenset() if intent is None else intent.commit.leaving
    if files.listed is not None and not leaving.isdisjoint(wrong):
        # A publish deletes no file that the manifest lists.
        leaving -= (files.listed() or {}).keys()
    check.problems += [problem for uri, problem in wrong.items() if uri not in leaving]
    return ChainReport(check.blocks, len(check.live), tuple(check.problems[:_MAX_PROBLEMS]))


@dataclass(slots=True)
class _Check:
    chains: Mapping[str, InputChain]
    blocks: int = 0
    tip: ChainHead | None = None
    problems: list[str] = field(default_factory=list)
    units: dict[bytes, tuple[str, bytes]] = field(default_factory=dict)
    live: dict[str, SliceFile] = field(default_factory=dict)
    late: dict[str, SideFile] = field(default_factory=dict)
    changes: dict[str, SideFile] = field(default_factory=dict)
    closed_labels: ClosedLabels = field(default_factory=ClosedLabels)

    def block(self, fields: JsonObject) -> None:
        """Check one block as the next block."""
        self.blocks += 1
        stored_hash = str(fields["hash"])
        bare = {name: value for name, value in fields.items() if name != "hash"}
        sequence = bare.get("sequenceNumber")
        try:
            if not is_hash_of(stored_hash, canonical(bare)):
                self.problems.append(f"V06: block {sequence} does not fit its hash {stored_hash}")
            block = read_block(bare)
        except (KeyError, TypeError, ValueError) as error:
            self.problems.append(f"V06: block {sequence} cannot be read: {error!r}")
            return
        try:
            found = violations(block, self.tip, replaced=self._absorb(block))
        except (KeyError, TypeError, ValueError) as error:
            self.problems.append(f"V21: the state in block {sequence} cannot be read: {error!r}")
            found = []
        found += self._follow_labels(block.event)
        found += self._check_inputs(block)
        self.problems += [f"{each} (block {sequence})" for each in found]
        self.tip = advance(self.tip, block, stored_hash)

    def _check_inputs(self, block: Block) -> list[Violation]:
        """Check a query's statements about its inputs (V30 to V39)."""
        event = block.event
        if self.tip is None or not isinstance(event, DataEvent):
            return []
        names = {item.dataset_id for item in event.inputs or ()}
        return input_violations(block, self.tip, self.chains if names <= set(self.chains) else None)

    def head(self, head: JsonObject | None) -> None:
        """Check that the head, after which the next run writes, is the last block."""
        found = None if head is None else head["hash"]
        last = None if self.tip is None else self.tip.hash
        if found != last:
            self.problems.append(f"V03: the head is {found}, the last block is {last}")

    def index(self, states: Iterable[UnitEntry]) -> None:
        """Check that the work-unit index has exactly the rows of the blocks."""
        unseen = set(self.units)
        for state in states:
            key = _key(state.signature)
            unseen.discard(key)
            _, facts = self.units.get(key, ("", b""))
            values = (state.low, state.expected_high, state.high, state.status, state.attempts)
            if facts != _facts(*values):
                self.problems.append(
                    f"V22: work unit {state.signature} differs between index and chain"
                )
        if unseen:
            self.problems.append(
                f"V22: work units of the chain that are not in the index: {len(unseen)}"
            )

    def stored_closed_labels(self, kept: ClosedLabels) -> None:
        """Check that the stored closed labels agree with the blocks."""
        stated = (list(kept.stretches), dict(kept.reopened))
        if stated != (list(self.closed_labels.stretches), dict(self.closed_labels.reopened)):
            self.problems.append("V24: the closed timelabels differ between index and chain")

    def _follow_labels(self, event: Event) -> Iterator[Violation]:
        """Follow the events that close and reopen labels, which must alternate for each label."""
        if not isinstance(event, ConfigEvent) or event.kind not in (CLOSE_BOOKS, REOPEN_BOOKS):
            return
        try:
            label = str(event.body["timelabel"])
            window = LabelWindow(label_start(label), int(str(event.body["windowEnd"])), label)
        except (KeyError, ValueError) as error:
            yield Violation("V24", f"{event.kind} cannot be read: {error!r}")
            return
        is_closing = event.kind == CLOSE_BOOKS
        if self.closed_labels.is_closed(window) == is_closing:
            state = "closed" if is_closing else "open"
            yield Violation("V24", f"{event.kind} of timelabel {label}, which is {state} already")
        change = self.closed_labels.with_closed if is_closing else self.closed_labels.with_reopened
        self.closed_labels = change(window)

    def manifest(self, listed: Mapping[str, PublishedFile], store: StateStore) -> None:
        """Check that the chain has the files in the dataset's manifest, with their numbers of rows.

        Files of runs that kept no state are in no block, but the store knows these runs.
        """
        strange = [file for uri, file in listed.items() if uri not in self.live]
        unknown = {file.uri for file in strange} - store.own_files(strange)
        if unknown:
            self.problems.append(
                f"the dataset's manifest lists {len(unknown)} live files of which the chain knows"
                f" nothing, for example {min(unknown)}: the chain was truncated, or started over"
            )

        for uri, file in listed.items():
            part = self.live.get(uri)
            if part is not None and part.rows != file.rows:
                self.problems.append(
                    f"the dataset's manifest lists {uri} with {file.rows} rows, and the chain has"
                    f" {part.rows}"
                )

    def _absorb(self, block: Block) -> dict[str, str]:
        """Record the files and work units of a block; return the row hashes that it replaces."""
        event = block.event
        if not isinstance(event, DataEvent):
            return {}
        if event.new_data is not None:
            for part in event.new_data.removes:
                self.live.pop(part.path, None)
            self.live.update({part.path: part for part in event.new_data.parts or ()})
        self._absorb_beside(event)
        state = event.new_source_state
        if state is None or state.kind != KIND:
            return {}
        replaced = {}
        for row in UnitSummary.delta_of(state):
            signature = str(row["sig"])
            key = _key(signature)
            if key in self.units:
                replaced[signature] = self.units[key][0]
            if is_removal(row):
                self.units.pop(key, None)
                continue
            names = ("low", "expectedHigh", "high", "status", "attempts")
            facts = _facts(*(row[name] for name in names))
            self.units[key] = (row_hash(row), facts)
        return replaced

    def _absorb_beside(self, event: DataEvent) -> None:
        """Record the files beside the dataset after an event."""
        if event.late is not None:
            for path in event.late.removes:
                self.late.pop(path, None)
            self.late.update({each.path: each for each in event.late.parts})
        if event.changelog is not None:
            if event.changelog.is_begun:
                self.changes.clear()  # no reader begins with earlier changes
            self.changes.update({each.path: each for each in event.changelog.parts})


def _wrong(
    part: SliceFile | SideFile,
    size_of: Callable[[str], int | None],
    hash_of: Callable[[str], str | None] | None,
) -> str:
    """Return how a file differs from the published one (V20), empty if it does not differ."""
    size = size_of(part.path)
    if size == part.size:
        if hash_of is None or len(part.physical_hash) <= len(SHA2_256):
            return ""
        digest = hash_of(part.path)
        if digest is not None:
            is_same = SHA2_256 + digest == part.physical_hash
            return "" if is_same else f"V20: {part.path} is not what was published"
        size = None
    found = "is gone" if size is None else f"has {size} bytes"
    return f"V20: {part.path} {found}, {part.size} were published"


def _key(signature: str) -> bytes:
    return hashlib.sha256(signature.encode()).digest()[:16]


def _facts(*values: object) -> bytes:
    return hashlib.sha256(repr(values).encode()).digest()[:8]


def _oldest_first(blocks: Iterable[JsonObject]) -> Iterator[JsonObject]:
    places = array("Q")
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
        for fields in blocks:
            places.append(spool.tell())
            spool.write(json.dumps(fields).encode() + b"\n")
        while places:
            spool.seek(places.pop())
            yield json.loads(spool.readline())
