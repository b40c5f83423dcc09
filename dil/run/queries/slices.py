"""Chooses the slices of input chains that a run of a derived dataset reads.

Only state is read. A run looks for a file only if a block after the slice removed that file, or a
publish that has begun. The cost grows with the number of inputs and of their new blocks, never with
the length of a chain (rule C23).
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from dil.model.dataset import Commit, gone_file
from dil.model.derived import Closing, InputSlice, QueryStep, WindowSpec
from dil.model.interval import Interval
from dil.model.job import DatasetInput, Job, QueryMode, QuerySpec
from dil.model.json import JsonObject, compact
from dil.model.work_unit import Plan, Reason, WorkUnit
from dil.observe.progress import counted
from dil.observe.query_view import InputLine, QueryPlanView, blocks_text
from dil.planning.timelabels import timelabels
from dil.run.options import RunOptions
from dil.state.blocks.canonical import instant_of
from dil.state.chain.chain_rows import data_event_at
from dil.state.chain.slices import is_live
from dil.state.databases.database import Transaction
from dil.state.derived.appending import require_sound_query
from dil.state.derived.earlier_inputs import refuse_inputs_read_before, refuse_other_reading
from dil.state.derived.input_rows import InputReading, InputRows, place_of
from dil.state.derived.inputs import StoredInput, open_input
from dil.state.derived.planning import (
    QueryPlan,
    SliceLimits,
    plan_query,
    transform_in_force,
    windows_emitted_until,
)
from dil.state.opening import open_snapshot
from dil.state.runs.run_rows import pending
from dil.storage import first_missing

log = logging.getLogger(__name__)

_LOOK_S = 5.0
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """The slice of one input that a run takes.

    ``first`` is the sequence of the block before the slice, -1 if there is none. ``last`` is the
    sequence of the last block of the slice. ``read`` are the rows that the query reads: the new
    rows, or all rows of the input dataset.
    """

    input: DatasetInput
    slice: InputSlice
    first: int
    last: int
    read: InputRows = field(default_factory=InputRows)

    @property
    def rows(self) -> int:
        """Return how many rows of the input the query reads."""
        return sum(part.count for part in self.read.parts)

    @property
    def has_news(self) -> bool:
        """Return whether the slice has blocks that no earlier run took."""
        return self.slice.new_block_hash is not None


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """The next transaction of a derived dataset.

    ``step`` is None if there is nothing to do. ``runs`` says whether the query has to run; if not,
    only the places in the inputs are recorded. ``waits`` are texts on inputs without new blocks.
    ``closing`` are the windows to emit; None if the query has no windows, or closes none. ``left``
    counts the blocks of inputs that later runs take. ``last_event_ms`` is set after the query has
    run, if repeats are left out: the greatest event time of the rows.
    """

    step: QueryStep | None = None
    runs: bool = False
    inputs: tuple[PlannedInput, ...] = ()
    waits: tuple[str, ...] = ()
    closing: Closing | None = None
    left: int = 0
    last_event_ms: int | None = None

    @property
    def rows(self) -> int:
        """Return how many rows the query reads."""
        return sum(each.rows for each in self.inputs)


def plan_slices(
    job: Job, spec: QuerySpec, clock: Clock, until: Mapping[str, int] | None = None
) -> PlannedQuery:
    """Return the slices that the next run takes; ``until`` limits the last block of each input.

    Raises:
        StateError: an input was started over since it was read (V40), or removed rows that were
            read; or a store cannot be read.
    """
    with (
        open_snapshot(job.state, job.name, clock=clock) as own,
        input_chains(spec, clock) as chains,
    ):
        missing = [each for each in spec.inputs if each.dataset not in chains]
        if missing:
            return PlannedQuery(waits=tuple(map(_unpublished, missing)))
        return _planned(own, job.name, spec, chains, until or {})


def heads(spec: QuerySpec, clock: Clock) -> dict[str, int]:
    """Return the sequence of the newest block of each input that has published anything.

    Raises:
        StateError: a store cannot be read.
    """
    with input_chains(spec, clock) as chains:
        return {name: chain.sequence for name, chain in chains.items()}


def _unpublished(item: DatasetInput) -> str:
    run = f" (dil run {shlex.quote(item.path)})" if item.path else ""
    return f"{item.dataset} has published no rows yet{run}"


def awaited_slices(job: Job, spec: QuerySpec, options: RunOptions) -> PlannedQuery:
    """Wait for new blocks of each input, at most ``ms.query.wait``; return the slices to take.

    Raises:
        StateError: as ``plan_slices``.
    """
    left = spec.wait_ms / 1000
    found = plan_slices(job, spec, options.clock)
    if found.waits and left > 0:
        log.info("waiting, at most %g s: %s", left, "; ".join(found.waits))
    while found.waits and left > 0:
        pause = min(_LOOK_S, left)
        options.sleep(pause)
        left -= pause
        found = plan_slices(job, spec, options.clock)
    return found


@contextmanager
def input_chains(spec: QuerySpec, clock: Clock) -> Iterator[dict[str, StoredInput]]:
    """Open the chains of all inputs that have one, each in one consistent state, by dataset.

    Raises:
        StateError: a store cannot be read.
    """
    with ExitStack() as opened:
        found: dict[str, StoredInput] = {}
        for each in spec.inputs:
            tx = opened.enter_context(open_snapshot(each.state, each.dataset, clock=clock))
            chain = open_input(tx, each.dataset)
            if chain is not None:
                found[each.dataset] = chain
        yield found


def _planned(
    own: Transaction,
    name: str,
    spec: QuerySpec,
    chains: dict[str, StoredInput],
    until: Mapping[str, int],
    whole: frozenset[str] = frozenset(),
) -> PlannedQuery:
    """Return the next transaction; the inputs in ``whole`` are taken up to their heads."""
    is_full = spec.mode is QueryMode.FULL
    again = False
    if is_full:
        before = transform_in_force(own, name)
        is_changed = before is not None and before != json.loads(spec.transform)
        again = is_changed and any(
            chain.schema_sequence is not None and chain.has_data_in(-1, chain.sequence)
            for chain in chains.values()
        )
    plan = plan_query(
        own,
        name,
        SliceLimits(spec.max_blocks, spec.max_rows, again, until),
        inputs=tuple(each.dataset for each in spec.inputs),
        chains=chains,
        whole=whole | {each.dataset for each in spec.inputs if is_full or each.reads_closed},
    )
    if plan is None:
        return PlannedQuery(waits=tuple(f"{each.dataset} has nothing new" for each in spec.inputs))
    slices = plan.event.inputs or ()
    if not spec.mode.reads_whole:
        refuse_inputs_read_before(own, name, slices)
        by_label = frozenset(each.dataset for each in spec.inputs if each.reads_closed)
        refuse_other_reading(own, name, slices, by_label)
    slices = tuple(
        replace(taken, closed=item.reads_closed)
        for item, taken in zip(spec.inputs, slices, strict=True)
    )
    places = [
        _place(item, taken, chains[item.dataset])
        for item, taken in zip(spec.inputs, slices, strict=True)
    ]
    # Blocks that only remove rows have no new offsets, but are new blocks, too.
    readings = [_reading(each, chains[each.input.dataset], spec) for each in places]
    changes = [each.has_changes() for each in readings]
    runs = again or any(changes)
    closed = None
    if spec.windows is not None:
        closed = _closed(own, name, plan, spec.windows)
        runs = closed is not None
    if runs:
        places = [
            replace(each, read=reading.rows())
            for each, reading in zip(places, readings, strict=True)
        ]
        gone = _gone_files(places, chains)
        if spec.windows is not None and not whole.issuperset(gone):
            # Windows read all rows that exist at the end of a slice; at the head no file is gone,
            # unless the input is being published.
            return _planned(own, name, spec, chains, until, whole.union(gone))
        if gone:
            return PlannedQuery(waits=tuple(_unfinished(spec, gone, chains)))
        # A compaction gives new offsets to rows that were read before. Without a schema no rows
        # ever came: labels were closed that have none, and the query would find no column.
        empty = [each for each in spec.inputs if chains[each.dataset].schema_sequence is None]
        has_schema = len(empty) < len(spec.inputs)
        runs = (is_full and has_schema) or any(each.read.parts for each in places)
        if runs and empty and spec.function is None:  # SQL would find no column of these inputs
            return PlannedQuery(waits=tuple(map(_unpublished, empty)))
    watermark = plan.event.new_watermark
    if spec.holds_watermark:
        last = None if plan.data_sequence is None else data_event_at(own, name, plan.data_sequence)
        watermark = None if last is None else last.new_watermark
    return PlannedQuery(
        QueryStep(spec.transform, slices, watermark),
        runs,
        tuple(places),
        tuple(_waits(places, changes)),
        closed,
        sum(chains[each.input.dataset].sequence - each.last for each in places),
    )


def _gone_files(
    places: Iterable[PlannedInput], chains: Mapping[str, StoredInput]
) -> dict[str, str]:
    """Return for each input a file of its slice that was deleted.

    A block after the slice removed the file, or a publish that has begun. An input without such a
    file is not in the result.
    """
    found = {}
    for each in places:
        chain = chains[each.input.dataset]
        intent = pending(chain.tx, chain.dataset_id)
        leaving = frozenset() if intent is None else intent.commit.leaving
        is_at_head = each.last == chain.sequence and not leaving
        if is_at_head or each.read.has_op:  # a changelog keeps its files
            continue
        gone = first_missing(
            part.uri
            for part in each.read.parts
            if part.uri in leaving or not is_live(chain.tx, chain.dataset_id, part.uri)
        )
        if gone is not None:
            found[each.input.dataset] = gone
    return found


def _unfinished(
    spec: QuerySpec, gone: Mapping[str, str], chains: Mapping[str, StoredInput]
) -> Iterator[str]:
    """Yield a text for each input that lacks files, by ``gone``, because it is being published.

    Raises:
        StateError: a later block removed the file, and the slice needs it.
    """
    for item in spec.inputs:
        if item.dataset not in gone:
            continue
        intent = pending(chains[item.dataset].tx, item.dataset)
        if intent is None:
            raise gone_file(gone[item.dataset])
        run = f" (dil run {shlex.quote(item.path)})" if item.path else ""
        yield (
            f"{item.dataset} is being published by {intent.commit.run_id}; if that was killed, the"
            f" next run of {item.dataset} finishes it{run}"
        )


def refuse_gone_files(spec: QuerySpec, inputs: Iterable[PlannedInput], clock: Clock) -> None:
    """Raise if files that a run reads were deleted since it was planned.

    Raises:
        StateError: a file was deleted; the next run reads other files.
    """
    with input_chains(spec, clock) as chains:
        known = (each for each in inputs if each.input.dataset in chains)
        for path in _gone_files(known, chains).values():
            raise gone_file(path)


def _waits(places: Iterable[PlannedInput], changes: Iterable[bool]) -> Iterator[str]:
    """Yield a text for each input that has nothing new, or that closed no timelabel."""
    for each, has_changes in zip(places, changes, strict=True):
        name = each.input.dataset
        if not each.has_news:
            yield f"{name} has nothing new"
        elif each.input.reads_closed and not has_changes:
            yield f"{name} has closed no timelabel since"


def _closed(own: Transaction, name: str, plan: QueryPlan, windows: WindowSpec) -> Closing | None:
    """Return the windows that the watermark closes now; None if it closes none."""
    until = plan.event.new_watermark
    if until is None:
        return None
    found = Closing(windows_emitted_until(own, name), instant_of(until))
    return found if windows.closes_any(found) else None


def _place(item: DatasetInput, taken: InputSlice, chain: StoredInput) -> PlannedInput:
    first = -1 if taken.prev_block_hash is None else chain.sequence_of(taken.prev_block_hash)
    last = None if taken.last_block is None else chain.sequence_of(taken.last_block)
    assert first is not None  # noqa: S101 - plan_query has found it
    return PlannedInput(item, taken, first, first if last is None else last)


def _reading(place: PlannedInput, chain: StoredInput, spec: QuerySpec) -> InputReading:
    reached = place_of(chain, place.slice.prev_block_hash, place.slice.prev_offset)
    assert reached is not None  # noqa: S101 - plan_query has found it
    item = place.input
    return InputReading(
        chain,
        reached,
        place.last,
        reads_whole=spec.mode.reads_whole,
        reads_late=item.reads_late,
        needs_changelog=item.keeps_changelog,
        reads_closed=item.reads_closed,
        # The view of a function depends on its blocks alone, so that a replay gives the same rows.
        needs_columns=spec.function is None,
    )


def require_sound(job: Job, spec: QuerySpec, commit: Commit, clock: Clock) -> None:
    """Check a commit against the inputs before its rows become visible (V30 to V40).

    Raises:
        StateError: a rule would be broken.
    """
    if commit.query is None:
        return
    with (
        open_snapshot(job.state, job.name, clock=clock) as own,
        input_chains(spec, clock) as chains,
    ):
        require_sound_query(own, job.name, commit, commit.query, chains)


def as_plan(job: Job, spec: QuerySpec, planned: PlannedQuery, now_ms: int) -> Plan:
    """Return the due slices as a plan of at most one work unit; ``now_ms`` is epoch ms UTC.

    The signature of the work unit names the blocks that are taken from each input.
    """
    units: tuple[WorkUnit, ...] = ()
    if planned.step is not None:
        whole = Interval(0, max(now_ms, 1))
        places: JsonObject = {
            each.input.dataset: [each.first, each.last] for each in planned.inputs
        }
        name = f"query.{compact(places)}"
        labels, label = job.planning.timelabel, None
        if labels is not None and labels.column:  # the label of rows that have no time
            label = timelabels(labels, now_ms)(whole)
        units = (
            WorkUnit(
                name, whole.low, whole.high, whole, "query", "{}", Reason.INCREMENTAL,
                timelabel=label,
            ),
        )  # fmt: skip
    return Plan(now_ms, job.planning.zone, spec.mode is QueryMode.FULL, None, units)


def taken_text(planned: PlannedQuery) -> str:
    """Return a short text on the blocks that are taken and left; empty if none are taken."""
    new = [each for each in planned.inputs if each.has_news]
    parts = [f"{blocks_text(each.first, each.last)} of {each.input.dataset}" for each in new]
    parts += [f"{counted(planned.left, 'block')} left"] if new and planned.left else []
    return ", ".join(parts)


def view_of_plan(job: Job, spec: QuerySpec, planned: PlannedQuery, now_ms: int) -> QueryPlanView:
    """Return the plan as people and machines see it."""
    lines = tuple(
        InputLine(each.input.view, each.input.path, each.slice, each.first, each.last, each.rows)
        for each in planned.inputs
    )
    is_due = planned.step is not None
    return QueryPlanView(
        job.name,
        now_ms,
        spec.mode.value,
        is_due,
        planned.runs,
        lines,
        planned.waits,
        spec.wait_ms,
    )
