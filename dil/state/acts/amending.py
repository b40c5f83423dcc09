"""An operator's act on the work-unit index: one change of state, appended, never rewritten.

An act is ``ResetState``, which names it, and behind it data events whose deltas hold the rows that
changed. A large one takes several blocks, so that none grows beyond what a server accepts; all
are written in one transaction. Coverage is counted again for the units that are concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dil.errors import StateError
from dil.model.dataset import Commit, OperatorAct, UnitEntry
from dil.model.interval import Interval
from dil.model.json import JsonObject
from dil.state.blocks.block import Tip, advance, carried, next_block
from dil.state.blocks.canonical import key_hash, watermark_text
from dil.state.blocks.events import ConfigEvent, Event, Seed
from dil.state.blocks.source_state import FAILED, PENDING, SKIPPED, UnitRow, UnitSummary
from dil.state.blocks.validation import require, violations
from dil.state.chain import slices
from dil.state.chain.chain_rows import append, read_tip
from dil.state.databases import sql
from dil.state.databases.database import Row, Transaction
from dil.state.runs import run_rows
from dil.state.work_units.coverage import spans_of
from dil.state.work_units.signatures import parts_of_signature
from dil.state.work_units.unit_rows import (
    CoverageRow,
    Known,
    UnitChanges,
    UnitIndex,
    lowest_open_of,
    note,
    read_known,
    write_coverage,
)

ROWS_A_BLOCK = 5_000
NO_ERA = -1  # a success of an unknown grid: a record, but never covered


def record_act(tx: Transaction, job: str, commit: Commit, act: OperatorAct) -> int | None:
    """Record an operator's act; return the sequence of its last block, None when it wrote none.

    Raises:
        CommitConflictError: another writer moved the head.
        StateError: a rule of the chain would break.
    """
    if act.runs_before is not None:
        run_rows.drop_swept(tx, job, act.runs_before)
    if not (act.changed or act.removed or commit.moves or commit.removes):
        return None
    chain = _Chain(tx, job, commit, read_tip(tx, job))
    if chain.tip is None:
        chain.add(Seed(job, "Root"))
    if commit.schema not in ("", chain.schema):
        chain.add(ConfigEvent("SetDataSchema", {"schema": commit.schema}))
    chunks = _chunks(act)
    chain.add(_reset(act, commit, len(chunks)))
    rows = _Rows(
        tx, job, run_rows.read_counters(tx, job).era, is_new=tx.row(sql.ANY_ROW, job) is None
    )
    for number, chunk in enumerate(chunks, start=1):
        changes = rows.apply(chunk, chain.next_sequence)
        if number == len(chunks):
            rows.count_coverage()
        summary = rows.summary(chain.summary, changes, is_last=number == len(chunks))
        chain.add_data(act, summary, changes, is_first=number == 1)
    # What crashed runs staged was read on what the act has just changed.
    tx.change(sql.SUPERSEDED_RUNS, job, commit.run_id)
    return chain.next_sequence - 1


def _reset(act: OperatorAct, commit: Commit, data_blocks: int) -> ConfigEvent:
    """Return the event that names the act; ``dataBlocks`` of the blocks behind it belong to it."""
    body: JsonObject = {
        "fields": ["sourceState", *(["watermark"] if act.sets_watermark else [])],
        "reason": act.reason,
        "act": act.verb,
        "actId": commit.run_id,
        "dataBlocks": data_blocks,
    }
    return ConfigEvent("ResetState", body)


def _chunks(act: OperatorAct) -> list[Sequence[UnitEntry | str]]:
    """Return what each block changes, oldest partitions first: at least one block."""
    changed = sorted(act.changed, key=lambda each: (each.low, each.signature))
    wanted: list[UnitEntry | str] = [*changed, *act.removed]
    starts = range(0, max(len(wanted), 1), ROWS_A_BLOCK)
    return [wanted[start : start + ROWS_A_BLOCK] for start in starts]


@dataclass(slots=True)
class _Chain:
    """The end of the chain while an act is written behind it."""

    tx: Transaction
    job: str
    commit: Commit
    tip: Tip | None

    @property
    def next_sequence(self) -> int:
        """Return the sequence of the block that comes next."""
        return 0 if self.tip is None else self.tip.head.sequence + 1

    @property
    def schema(self) -> str | None:
        """Return the dataset's recorded schema, None before the first one."""
        return self.tip.schema if self.tip else None

    @property
    def summary(self) -> UnitSummary:
        """Return what the last data event says of the index."""
        data = self.tip.data if self.tip else None
        return UnitSummary.of(data.new_source_state if data else None)

    def add(self, event: Event, replaced: Mapping[str, str] | None = None) -> None:
        """Append one block behind the tip."""
        block = next_block(self.tip, event, self.commit.system_time)
        horizon = self.commit.horizon
        require(violations(block, self.tip, horizon=horizon, replaced=replaced), block.sequence)
        after = advance(self.tip, block)
        append(self.tx, self.job, self.tip, [block], after)
        self.tip = after

    def add_data(
        self, act: OperatorAct, summary: UnitSummary, changes: UnitChanges, *, is_first: bool
    ) -> None:
        """Append the data event of one chunk; files and watermark stand in the first one."""
        if self.tip is None:
            raise AssertionError("a chain begins with Seed")
        event = carried(self.tip)
        if is_first:
            event = replace(
                event,
                new_data=slices.slice_of(self.tx, self.job, self.commit, event.prev_offset),
                new_watermark=_watermark(act, event.new_watermark),
            )
        state = summary.as_state(
            self.commit.source_name, list(changes.rows.values()), changes.removed
        )
        event = replace(event, new_source_state=state)
        self.add(event, changes.replaced)
        slices.keep_offsets(
            self.tx, self.job, self.commit.removes if is_first else (), slices.parts_of(event)
        )


def _watermark(act: OperatorAct, before: str | None) -> str | None:
    if not act.sets_watermark:
        return before
    return None if act.watermark is None else watermark_text(act.watermark)


@dataclass(slots=True)
class _Rows:
    """The rows of the work-unit index while an act changes them; ``is_new``: there were none."""

    tx: Transaction
    job: str
    era: int
    is_new: bool
    units: set[str] = field(default_factory=set)

    def apply(self, chunk: Sequence[UnitEntry | str], sequence: int) -> UnitChanges:
        """Write one chunk's rows as changed by the block ``sequence``; equal ones are left."""
        changes = UnitChanges()
        for each in chunk:
            if isinstance(each, str):
                self._remove(each, changes)
            else:
                self._put(each, sequence, changes)
        return changes

    def count_coverage(self) -> None:
        """Count the coverage of every unit again that the act concerns."""
        for unit in sorted(self.units):
            rows = [
                row for row in self.tx.rows(sql.ROWS_OF_UNIT, self.job, unit) if row[3] != PENDING
            ]
            if rows:
                row = _coverage_of(rows, self.era)
                write_coverage(self.tx, self.job, unit, row, self.era)
            else:
                self.tx.change(sql.DROP_COVERAGE, self.job, unit)

    def summary(self, before: UnitSummary, changes: UnitChanges, *, is_last: bool) -> UnitSummary:
        """Return the summary after a chunk; the last one's marks are those of the whole index."""
        after = UnitIndex(self.tx, self.job, self.era).summary(before, changes)
        if not is_last or after == before:
            return after
        row = self.tx.row(sql.LARGEST_HIGH, self.job)
        largest = None if row is None else row[0]
        lowest_open = lowest_open_of(self.tx, self.job)
        return replace(
            after, max_high=largest, frontier=largest if lowest_open is None else lowest_open
        )

    def _put(self, entry: UnitEntry, sequence: int, changes: UnitChanges) -> None:
        row = UnitRow(
            entry.signature, entry.low, entry.expected_high, entry.high, entry.status,
            entry.attempts,
        )  # fmt: skip
        # A first import brings a million rows: it does not look for any of them.
        known = None if self.is_new else read_known(self.tx, self.job, entry.signature)
        if known is not None and known.row == row:
            return
        note(changes, known, row)
        unit = known.unit_key if known else _unit_hash(entry.signature)
        self.units.add(unit)
        self.tx.change(
            sql.ADD_UNIT if known is None else sql.CHANGE_UNIT,
            unit, row.signature, row.low, row.expected_high, row.high, row.status, row.attempts,
            None, "", known.timelabel if known else None, sequence, row.hash,
            self._era_of(entry, known), self.job, key_hash(row.signature),
        )  # fmt: skip

    def _remove(self, signature: str, changes: UnitChanges) -> None:
        known = read_known(self.tx, self.job, signature)
        if known is None:
            return
        changes.count(known.row.status, -1)
        changes.replaced[signature] = known.row_hash
        changes.removed.append(signature)
        self.units.add(known.unit_key)
        self.tx.change(sql.DROP_UNIT, self.job, key_hash(signature))

    def _era_of(self, entry: UnitEntry, known: Known | None) -> int:
        """Return the era of the success that a row stands for.

        A row that loses its success keeps the era, so that undoing it is exact. One that gets a
        success of another end than it stands for is no tile of the present grid by that alone.
        """
        if known is not None and self._is_same_tile(entry, known):
            return known.era
        return self.era if entry.is_on_grid else NO_ERA

    @staticmethod
    def _is_same_tile(entry: UnitEntry, known: Known) -> bool:
        if entry.high is None:
            return True
        is_same_end = entry.expected_high == known.row.expected_high
        return is_same_end and known.row.high in (None, entry.high)


def _unit_hash(signature: str) -> str:
    """Return the key of the unit that a signature names.

    Raises:
        StateError: the text is no signature.
    """
    parts = parts_of_signature(signature)
    if parts is None:
        raise StateError(
            f"{signature} is no signature of a work unit",
            "Signatures read [watermark.<name>.<start>, watermark.<name>.<unit JSON>].",
        )
    return key_hash(parts.unit_key)


def _coverage_of(rows: Sequence[Row], era: int) -> CoverageRow:
    """Return the coverage row of one unit's rows, which are ascending by start."""
    highs = (row[1] for row in rows if row[1] is not None)
    return CoverageRow(
        spans=spans_of(_tiles(rows, era)),
        max_high=max(highs, default=None),
        lowest=rows[0][0],
        open_count=sum(row[3] == FAILED for row in rows),
    )


def _tiles(rows: Sequence[Row], era: int) -> Iterator[Interval]:
    for low, high, expected_high, status, row_era in rows:
        end = expected_high if status == SKIPPED else high
        if row_era == era and end is not None and end > low:
            yield Interval(low, min(end, expected_high))
