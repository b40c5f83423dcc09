"""Writes the blocks of one commit after the head of a chain, for runs and for operators.

Each block is checked against the rules of the chain before it is drafted. Drafted blocks are
written together, with compare-and-set on the head that was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dil.model.dataset import Commit
from dil.model.event_tally import EVENT_TIME
from dil.model.json import JsonObject
from dil.state.blocks.block import Block, ChainHead, advance, carried, next_block
from dil.state.blocks.events import ConfigEvent, DataEvent, Event, Seed
from dil.state.blocks.input_validation import InputChain, input_violations
from dil.state.blocks.source_state import UnitSummary
from dil.state.blocks.validation import Violation, require, violations
from dil.state.chain import slices
from dil.state.chain.chain_rows import append, read_tip
from dil.state.databases.database import Transaction
from dil.text.zones import iso


class ChainWriter:
    """The head of a chain, and the blocks drafted after it, inside one transaction.

    ``tip`` is the head including the drafts, None for an empty chain. No watermark may be later
    than both ``horizon``, epoch ms UTC, and the system time (V18). ``chains`` are the chains of a
    query's inputs; if it is None, rules that need them are not checked.
    """

    def __init__(
        self,
        tx: Transaction,
        dataset_id: str,
        system_time: int,
        *,
        horizon: int | None = None,
        chains: Mapping[str, InputChain] | None = None,
    ) -> None:
        self._tx = tx
        self._dataset_id = dataset_id
        self._system_time = system_time
        self._horizon = horizon
        self._chains = chains
        self._stored = read_tip(tx, dataset_id)
        self._drafts: list[Block] = []
        self.tip: ChainHead | None = self._stored

    @property
    def next_sequence(self) -> int:
        """Return the sequence of the next block."""
        return 0 if self.tip is None else self.tip.head.sequence + 1

    @property
    def schema(self) -> str | None:
        """Return the schema in force, None before the first one."""
        return self.tip.schema if self.tip else None

    @property
    def source(self) -> JsonObject:
        """Return the configuration of the source in force, empty before the first one."""
        return self.tip.source.body if self.tip and self.tip.source else {}

    @property
    def summary(self) -> UnitSummary:
        """Return the summary of the work-unit index in the last data event."""
        data = self.tip.data if self.tip else None
        return UnitSummary.of(data.new_source_state if data else None)

    @property
    def transform(self) -> JsonObject | None:
        """Return the body of the SetTransform in force, None before the first one."""
        source = self.tip.source if self.tip else None
        return source.body if source is not None and source.kind == "SetTransform" else None

    def begin(self, kind: str = "Root") -> None:
        """Draft the first block of a root or derived dataset, if the chain is empty."""
        if self.tip is None:
            self.draft(Seed(self._dataset_id, kind))

    def set_schema(self, schema: str) -> None:
        """Draft a new schema of the dataset."""
        self.draft(ConfigEvent("SetDataSchema", {"schema": schema}))

    def data_event(self, commit: Commit | None = None) -> DataEvent:
        """Return the next data event, with no changes but the files of ``commit``."""
        if self.tip is None:
            raise AssertionError("a chain begins with Seed")
        event = carried(self.tip)
        if commit is None:
            return event
        new_data = slices.slice_of(self._tx, self._dataset_id, commit, event.prev_offset)
        late, changelog = slices.late_of(commit), slices.changelog_of(commit)
        return replace(event, new_data=new_data, late=late, changelog=changelog)

    def draft(self, event: Event, *, replaced: Mapping[str, str] | None = None) -> None:
        """Draft the next block.

        Args:
            event: The event that the block holds.
            replaced: The former row hashes of its delta's rows, by signature (V22).

        Raises:
            StateError: a rule of the chain would break; nothing is written.
        """
        block, broken = self._checked(event, replaced)
        require(broken, block.sequence)
        self._keep(block)

    def draft_if_changed(self, event: DataEvent, *, replaced: Mapping[str, str]) -> bool:
        """Draft the next block unless its event changes nothing (V23); return whether it changes.

        Raises:
            StateError: a rule of the chain would break; nothing is written.
        """
        block, broken = self._checked(event, replaced)
        if [each.code for each in broken] == ["V23"]:
            return False
        require(broken, block.sequence)
        self._keep(block)
        return True

    def write(self) -> None:
        """Write the drafted blocks, and save the first offsets of their files.

        Raises:
            CommitConflictError: another writer moved the head.
        """
        if self.tip is None or not self._drafts:
            return
        append(self._tx, self._dataset_id, self._stored, self._drafts, self.tip)
        for block in self._drafts:
            if isinstance(block.event, DataEvent) and block.event.new_data is not None:
                slices.keep_offsets(self._tx, self._dataset_id, block.event.new_data)
        self._stored, self._drafts = self.tip, []

    def _checked(
        self, event: Event, replaced: Mapping[str, str] | None
    ) -> tuple[Block, list[Violation]]:
        block = next_block(self.tip, event, self._system_time)
        broken = violations(block, self.tip, horizon=self._horizon, replaced=replaced)
        if self.tip is not None:
            broken += input_violations(block, self.tip, self._chains)
        return block, broken

    def _keep(self, block: Block) -> None:
        self.tip = advance(self.tip, block)
        self._drafts.append(block)


def event_limits(commit: Commit) -> tuple[int | None, ...]:
    """Return the event watermark that limits the dataset's watermark, as the only item.

    The item is epoch ms UTC, None while the event watermark is unset. The result is empty for a job
    without an event watermark.
    """
    events = commit.checkpoints.get(EVENT_TIME)
    if events is None or events.get("strategy") == "none":
        return ()
    watermark = events.get("watermark")
    # A watermark before the calendar's first year cannot be written down.
    return (watermark if isinstance(watermark, int) and iso(watermark) else None,)
