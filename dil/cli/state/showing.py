"""``dil state show`` and ``dil state log``: show the state, now and at an earlier time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from dil.cli.arguments import parse_unit
from dil.cli.job_command import JobCall, job_command
from dil.cli.state.opening import block_moment, opened, sequence
from dil.cli.stdout import emit, emit_json_array, emit_lines
from dil.observe.event_view import events_json, kept_lines
from dil.observe.logs import one_line
from dil.observe.progress import counted, human_seconds
from dil.operator.unresolved_failures import UnresolvedFailure, unresolved_failures
from dil.run import event_time
from dil.run.closed_labels import load_closed_labels
from dil.state.amendments.operations import Selection
from dil.state.blocks.source_state import COMMITTED, SKIPPED
from dil.state.work_units.signatures import begin_of, parts_of_signature
from dil.text.zones import find_zone, iso, moment

if TYPE_CHECKING:
    from dil.model.closed_labels import ClosedLabels
    from dil.model.dataset import UnitEntry
    from dil.model.job import Job
    from dil.model.json import JsonObject
    from dil.model.report import EventSummary
    from dil.spi.state_store import StateStore, UnitState

_UNITS_SHOWN = 20
_STRETCHES_SHOWN = 5
_HASH_SHOWN = 12

as_of_option = click.option(
    "--as-of",
    "as_of",
    metavar="BLOCK|TIME",
    help="Show the state at a block or an instant: 12, or 2024-03-05T06:00:00Z.",
)


@click.command()
@job_command()
@as_of_option
@click.option("--failed", is_flag=True, help="Show only work units that are not committed.")
@click.option(
    "--unit", "units", metavar="JSON", multiple=True, help="Show only work units of this unit."
)
def show(call: JobCall, *, as_of: str | None, failed: bool, units: tuple[str, ...]) -> int:
    """Show the newest block and every work unit with its watermarks.

    Of a derived dataset, show in place of work units how far each input was read.
    """
    with opened(call) as (job, store):
        at = None if as_of is None else sequence(as_of, "--as-of", job, store)
        chosen = frozenset(map(parse_unit, units))
        view = _View(job, store, at, is_open_only=failed, units=chosen)
        if call.as_json:
            _show_json(view)
        else:
            _show_text(view)
    return 0


@click.command()
@job_command()
@as_of_option
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), help="Show only the N newest blocks."
)
def log(call: JobCall, *, as_of: str | None, limit: int | None) -> int:
    """Show the chain of blocks, newest first."""
    with opened(call) as (job, store):
        at = None if as_of is None else sequence(as_of, "--as-of", job, store)
        blocks = itertools.islice(_blocks_until(store, at), limit)
        if call.as_json:
            emit_json_array(blocks)
            emit("\n")
            return 0
        emit(f"{job.name}  times in {job.planning.zone}, newest block first\n")
        newer = None
        for block in blocks:
            if not emit(f"{_block_line(block, job, newer=newer)}\n"):
                return 0
            newer = block
        if newer is None:
            emit("no run has committed yet: the chain is empty\n")
    return 0


def _blocks_until(store: StateStore, last: int | None) -> Iterator[JsonObject]:
    """Yield the blocks of a chain from ``last`` back to the first; None means the newest block."""
    for block in store.blocks():
        if last is None or int(str(block["sequenceNumber"])) <= last:
            yield block


def _block_line(block: JsonObject, job: Job, *, newer: JsonObject | None = None) -> str:
    """Return one block on one line: number, time, content, the beginning of its hash.

    Args:
        block: The block.
        job: The job; times are shown in its zone.
        newer: The next block; it says what an operator's act did to files.
    """
    event = _member(block, "event")
    parts = [
        f"{block.get('sequenceNumber'):>6}  {block_moment(block.get('systemTime'), job)}",
        str(event.get("kind")),
    ]
    if "timelabel" in event:
        parts.append(str(event["timelabel"]))
        parts += [f"reason: {event['reason']}"] if event.get("reason") else []
    elif "actId" in event:
        parts.append(f"{event.get('act')} {event.get('actId')}")
        parts += _files(_member(_member(newer or {}, "event"), "newData"))
        parts.append(f"reason: {one_line(str(event.get('reason')))}")
    else:
        new_data = _member(event, "newData")
        interval = _member(new_data, "offsetInterval")
        start, end = interval.get("start"), interval.get("end")
        if isinstance(start, int) and isinstance(end, int):
            parts.append(counted(end - start + 1, "row"))
        parts += _files(new_data)
        parts += (f"beside the dataset {text}" for text in _files(_member(event, "lateData")))
        parts += (f"changelog {text}" for text in _files(_member(event, "changelogData")))
    if event.get("newWatermark"):
        parts.append(f"watermark {block_moment(event['newWatermark'], job)}")
    parts.append(str(block.get("hash", ""))[:_HASH_SHOWN])
    return "  ".join(parts)


def _files(new_data: JsonObject) -> Iterator[str]:
    for name, word in (("parts", "added"), ("removes", "taken out")):
        files = new_data.get(name)
        if isinstance(files, Sequence) and files:
            yield f"{counted(len(files), 'file')} {word}"


def _member(value: JsonObject, name: str) -> JsonObject:
    """Return an object member; an empty object if it is absent or null."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True, slots=True)
class _View:
    """A job's state as of a block, the newest if ``at`` is None, for some work units or for all.

    An earlier block does not say which failures were open, which labels were closed, and where the
    event watermark was.
    """

    job: Job
    store: StateStore
    at: int | None
    is_open_only: bool
    units: frozenset[str]

    def head(self) -> JsonObject | None:
        """Return the block that is shown as the newest."""
        if self.at is None:
            return self.store.head()
        return next(_blocks_until(self.store, self.at), None)

    def events(self) -> EventSummary | None:
        """Return the present event watermark; None for an earlier block."""
        return event_time.current(self.job, self.store) if self.at is None else None

    def closed_labels(self) -> ClosedLabels | None:
        """Return the present closed timelabels; None for an earlier block."""
        return load_closed_labels(self.job, self.store) if self.at is None else None

    def inputs(self) -> Sequence[JsonObject]:
        """Return how far each input of a derived dataset is read; none before its first commit.

        The offset is None if no row is read.
        """
        for block in _blocks_until(self.store, self.at):
            inputs = _member(block, "event").get("queryInputs")
            if isinstance(inputs, Sequence):
                return [
                    {
                        "dataset": each.get("datasetId"),
                        "offset": each.get("prevOffset")
                        if each.get("newOffset") is None
                        else each["newOffset"],
                        "block": each.get("newBlockHash") or each.get("prevBlockHash"),
                    }
                    for each in inputs
                    if isinstance(each, Mapping)
                ]
        return ()

    def failures(self) -> tuple[UnresolvedFailure, ...]:
        """Return the open failures; none for an earlier block."""
        selection = Selection(units=self.units)
        found = unresolved_failures(self.store) if self.at is None else ()
        lows = ((each, parts_of_signature(each.signature)) for each in found)
        return tuple(
            each
            for each, parts in lows
            if not self.units or (parts and selection.takes(each.signature, parts.low))
        )

    def states(self) -> Iterator[UnitState | UnitEntry]:
        """Yield the work units that are shown, by partition start, then signature."""
        selection = Selection(units=self.units)
        rows: Iterable[UnitState | UnitEntry] = (
            self.store.unit_states() if self.at is None else self.store.unit_entries(as_of=self.at)
        )
        for each in rows:
            if self.is_open_only and each.status in {COMMITTED, SKIPPED}:
                continue
            if not self.units or selection.takes(each.signature, each.low):
                yield each


def _show_json(view: _View) -> None:
    emit(f'{{\n  "head": {json.dumps(view.head())},\n')
    events, closed = view.events(), view.closed_labels()
    if events is not None:
        emit(f'  "events": {json.dumps(events_json(events))},\n')
    if closed is not None:
        stretches = [{"from": each.low, "to": each.high} for each in closed.stretches]
        labels = {"closed": stretches, "reopened": sorted(closed.reopened)}
        emit(f'  "timelabels": {json.dumps(labels)},\n')
    if view.job.query is not None:
        emit(f'  "inputs": {json.dumps(view.inputs())},\n')
    emit('  "work_units": ')
    units = (
        {
            "signature": one.signature,
            "low": one.low,
            "high": one.high,
            "low_iso": iso(one.low),
            "high_iso": iso(one.high),
            "status": one.status,
            "attempts": one.attempts,
        }
        for one in view.states()
    )
    emit_json_array(units, indent="  ")
    emit(',\n  "failures": ')
    emit_json_array((asdict(each) for each in view.failures()), indent="  ")
    emit("\n}\n")


def _show_text(view: _View) -> None:
    job, head, events = view.job, view.head(), view.events()
    closed = view.closed_labels()
    emit(f"{job.name}  times in {job.planning.zone}\n")
    emit(f"  head  {_block_line(head, job) if head else 'none: no run has committed yet'}\n")
    if events is not None:
        emit_lines(kept_lines(events))
    if closed is not None:
        utc = find_zone("UTC")
        if not closed.stretches:
            emit("  no timelabel is closed\n")
        for each in closed.stretches[-_STRETCHES_SHOWN:]:
            period = f"{moment(each.low, utc)} to {moment(each.high, utc)}"
            emit(f"  timelabels closed from {period}\n")
        if closed.reopened:
            names = " ".join(sorted(closed.reopened)[:_UNITS_SHOWN])
            emit(f"  timelabels open again: {names}\n")
    if job.query is not None:
        _show_inputs(view.inputs())
    else:
        emit_lines(_reach_lines(view))
        _show_units(view)
    _show_failures(job, view.failures())


def _show_inputs(inputs: Sequence[JsonObject]) -> None:
    if not inputs:
        emit("  no input is read yet\n")
        return
    line = "{:>17}  {:<12}  {}\n"
    emit("\n" + line.format("read up to offset", "block", "input"))
    for each in inputs:
        offset = "no row yet" if each["offset"] is None else f"{each['offset']:,}"
        emit(line.format(offset, str(each["block"])[:_HASH_SHOWN], each["dataset"]))


def _show_units(view: _View) -> None:
    zone = find_zone(view.job.planning.zone)
    line = "{:<10} {:>8}  {:<29} {:<29} {}\n"
    head = "\n" + line.format("status", "attempts", "from", "done up to", "work unit")
    for one in view.states():
        high = "-" if one.high is None else moment(one.high, zone)
        row = (one.status, one.attempts, moment(one.low, zone), high, one_line(one.signature))
        if not emit(head + line.format(*row)):
            break
        head = ""


def _show_failures(job: Job, failures: Sequence[UnresolvedFailure]) -> None:
    """Print each open failure, with the last run in which it happened."""
    if not failures:
        return
    emit("\nfailed last, and not read since:\n")
    for each in failures[:_UNITS_SHOWN]:
        spent = f"{counted(each.attempts, 'attempt')} in {human_seconds(each.seconds)}"
        begins = f" from {begin_of(each.signature)}" if job.planning.is_dated else ""
        emit(f"{one_line(each.signature)}{begins}\n  run {each.run_id}, {spent}\n")
        emit(f"  {one_line(each.error)}  [{each.code}]\n")
        if each.fix:
            emit(f"  {one_line(each.fix)}\n")
    if len(failures) > _UNITS_SHOWN:
        emit(f"and {counted(len(failures) - _UNITS_SHOWN, 'more work unit')}; --json has them\n")


@dataclass(slots=True)
class _Reach:
    """How far one unit is read without a hole, and what follows the first hole."""

    done_to: int
    newest: int | None = None
    holes: int = 0
    open_count: int = 0

    def add(self, one: UnitState | UnitEntry, *, is_open: bool) -> None:
        """Add the next work unit; call this in ascending order of partition starts."""
        self.open_count += is_open
        if one.high is None:
            return
        reached = self.done_to if self.newest is None else self.newest
        if one.low > reached:
            self.holes += 1
        elif not self.holes:
            self.done_to = max(self.done_to, one.high)
        self.newest = max(reached, one.high)


def _reach_lines(view: _View) -> Iterator[str]:
    """Yield for each unit up to where it is read without a hole, and how many holes follow.

    If each unit has one work unit, as with files that are read once, yield nothing: the list of
    work units follows anyway.
    """
    zone = find_zone(view.job.planning.zone)
    reaches: dict[str, _Reach] = {}
    count = 0
    for one in view.states():
        count += 1
        parts = parts_of_signature(one.signature)
        key = parts.unit_key if parts else one.signature
        is_done = one.status == SKIPPED or (one.status == COMMITTED and one.high is not None)
        reaches.setdefault(key, _Reach(one.low)).add(one, is_open=not is_done)
    if len(reaches) == count:
        return
    line = "{:<29} {:<29} {:>6} {:>6}  {}"
    yield ""
    yield line.format("done without a hole up to", "newest", "holes", "open", "unit")
    for key in sorted(reaches)[:_UNITS_SHOWN]:
        reach = reaches[key]
        newest = "-" if reach.newest is None else moment(reach.newest, zone)
        done_to = "-" if reach.newest is None else moment(reach.done_to, zone)
        yield line.format(done_to, newest, reach.holes, reach.open_count, one_line(key))
    if len(reaches) > _UNITS_SHOWN:
        yield f"and {len(reaches) - _UNITS_SHOWN:,} more units"
