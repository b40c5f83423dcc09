"""Shows a run's plan and its stream: as JSON for machines (rule P35), as text for people."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

from dil.model.json import compact
from dil.model.work_unit import Plan, Skip, WorkUnit, read_unit
from dil.observe.logs import one_line
from dil.observe.progress import counted, human_seconds
from dil.text.zones import find_zone, iso, moment

if TYPE_CHECKING:
    from dil.model.job import Job, PlanningSpec, QuerySpec
    from dil.model.stream import StreamSpec, StreamState

_SHOWN = 50
_LABELS_SHOWN = 8
_GAP = 2


def plan_json(plan: Plan, job: Job) -> dict[str, object]:
    """Return the plan as JSON members; times are epoch milliseconds UTC, and also ISO 8601.

    Some members are optional. ``skips`` is present if the plan was made with a full explanation;
    ``skipped_timelabels`` and ``before_first`` if the run leaves out periods; ``closed_timelabels``
    if the run leaves out closed timelabels; ``reopened_timelabels`` if the run reopens timelabels;
    ``grace_ms`` and ``grace_why`` if the grace period is not simply the configured one.
    """
    members: dict[str, object] = {
        "job": job.name,
        "now": plan.now,
        "now_iso": iso(plan.now),
        "zone": plan.zone,
        "full_extract": plan.full_extract,
        "cutoff": plan.cutoff,
        "cutoff_iso": iso(plan.cutoff),
        "work_units": [
            {
                "signature": work_unit.signature,
                "low": work_unit.low,
                "high": work_unit.high,
                "low_iso": iso(work_unit.low),
                "high_iso": iso(work_unit.high),
                "partition": {"low": work_unit.partition.low, "high": work_unit.partition.high},
                "unit": work_unit.unit,
                "timelabel": work_unit.timelabel,
                "reason": work_unit.reason.value,
                "last_high": work_unit.last_high,
                "cutoff": work_unit.cutoff,
                "overall_cutoff": work_unit.overall,
                "not_before": work_unit.not_before,
            }
            for work_unit in plan.work_units
        ],
        "skipped": plan.skipped,
        "left": plan.left,
    }
    if plan.grace_why:
        members["grace_ms"] = plan.grace_ms
        members["grace_why"] = plan.grace_why
    if plan.missed:
        members["skipped_timelabels"] = labels_of(plan.missed)
    if plan.before_first:
        members["before_first"] = plan.before_first
    closed = plan.closed_labels
    if closed.left:
        members["closed_timelabels"] = list(closed.left_labels)
    if closed.reopens:
        members["reopened_timelabels"] = list(closed.reopens)
    if closed.beside:
        members["beside_timelabels"] = list(closed.beside)
    if plan.skips is not None:
        members["skips"] = [
            {
                "signature": skip.signature,
                "partition": {"low": skip.partition.low, "high": skip.partition.high},
                "unit": read_unit(skip.unit_json),
                "last_high": skip.last_high,
                "cutoff": skip.cutoff,
                "own_cutoff": skip.own_cutoff,
                "why": skip.why,
            }
            for skip in plan.skips
        ]
    return members


def plan_text(
    plan: Plan,
    job: Job,
    *,
    arithmetic: Callable[[WorkUnit, Plan], str],
    skip_reason: Callable[[Skip, Plan], str],
    everything: bool = False,
    signatures: bool = False,
    notes: Sequence[str] = (),
) -> str:
    """Return the plan for people: the due work, and each window in the job's zone with its reason.

    Args:
        plan: The plan.
        job: The job of the plan.
        arithmetic: Returns, as lines, the calculation that led to a work unit's window.
        skip_reason: Returns in one line why a candidate is not due.
        everything: Whether to show every work unit and every skip, not only the first 50.
        signatures: Whether to show the signature of each work unit, for use in other commands.
        notes: Sentences that follow the number of due work units.
    """
    lines = [*_head(plan, job, notes)]
    if plan.work_units:
        shown = plan.work_units if everything else plan.work_units[:_SHOWN]
        lines += ["", *_table(shown, plan, job, arithmetic, signatures=signatures)]
        if len(shown) < len(plan.work_units):
            more = len(plan.work_units) - len(shown)
            lines.append(f"... and {counted(more, 'more work unit')}; --all shows them")
    if everything:
        zone = find_zone(plan.zone)
        for skip in plan.skips or ():
            window = f"{moment(skip.partition.low, zone)} .. {moment(skip.partition.high, zone)}"
            reason = one_line(skip_reason(skip, plan))
            lines.append(f"  {window}  {_unit_text(skip.unit_json)}  {reason}")
    return "\n".join(lines) + "\n"


def summary_text(plan: Plan, job: Job, notes: Sequence[str] = ()) -> str:
    """Return how much work is due and why, without windows."""
    return "\n".join(_head(plan, job, notes)) + "\n"


def _head(plan: Plan, job: Job, notes: Sequence[str]) -> Iterator[str]:
    zone = find_zone(plan.zone)
    yield f"{job.name}  plan at {moment(plan.now, zone)}, times in {plan.zone}, {_kind(job)}"
    if plan.cutoff is not None:
        yield f"  cutoff {moment(plan.cutoff, zone)}: partitions that end after it are due"
    if plan.grace_why:
        yield f"  {plan.grace_why}"
    yield f"  {_sentence(plan, job)}"
    yield from (f"  {text}." for text in left_out_of(plan))
    yield from (f"  {text}" for text in notes)


def _kind(job: Job) -> str:
    """Return a text that says whether history counts; DIL's word "full" does not say so."""
    if job.planning.backfill:
        return "backfill: reads its range again"
    if job.publishing.replaces_once:
        return "this run reads everything in its range again and replaces the dataset"
    if job.planning.ignore_history:
        return "every run reads everything again and replaces the dataset"
    return "incremental" if job.state.enabled else "no state is kept, so every run reads everything"


def left_out_of(plan: Plan) -> tuple[str, ...]:
    """Return a sentence for each kind of period that a run leaves out, without a full stop."""
    found = []
    if plan.missed:
        labels = labels_of(plan.missed)
        low, high = plan.missed[0].partition.low, plan.missed[-1].partition.high
        found.append(
            f"skipped, because no run took place in their time (ms.timelabel.catchup=false): "
            f"{counted(len(labels), 'timelabel')}, {' '.join(_few(labels))}, "
            f"{counted(len(plan.missed), 'work unit')}; once the run has published, `dil backfill "
            f"JOB.conf --from {iso(low)} --to {iso(high)}` reads them"
        )
    if plan.before_first:
        found.append(
            "left out, because they are older than the first run's period "
            f"(ms.timelabel.first.run=period): {counted(plan.before_first, 'work unit')}; "
            "ms.timelabel.first.run=history reads them"
        )
    return (*found, *closed_labels_of(plan))


def closed_labels_of(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each kind of closed timelabels in a plan, without a full stop."""
    closed = plan.closed_labels
    if closed.left:
        labels = closed.left_labels
        yield (
            "left as they are, because their timelabels are closed (ms.late.after.close=reject): "
            f"{counted(len(labels), 'timelabel')}, {' '.join(_few(labels))}, "
            f"{counted(closed.left, 'work unit')}; `dil timelabels reopen JOB.conf "
            f"{labels[0]}` lets the next run read them"
        )
    if closed.reopens:
        yield (
            "closed timelabels that are read again are reopened, published and closed again "
            f"(ms.late.after.close=reopen): {counted(len(closed.reopens), 'timelabel')}, "
            f"{' '.join(_few(closed.reopens))}"
        )
    if closed.beside:
        yield (
            "rows for closed timelabels are published beside the dataset "
            f"(ms.late.after.close=side_table): {counted(len(closed.beside), 'timelabel')}, "
            f"{' '.join(_few(closed.beside))}"
        )


def _few(labels: Sequence[str]) -> Sequence[str]:
    return labels if len(labels) <= _LABELS_SHOWN else [labels[0], "...", labels[-1]]


def labels_of(work_units: Sequence[WorkUnit]) -> list[str]:
    """Return the timelabels of work units, each label once, in order of time."""
    return sorted({unit.timelabel for unit in work_units if unit.timelabel})


def why_no_partition(spec: PlanningSpec) -> str:
    """Return why a plan has no partitions."""
    if spec.composite:
        return f"no partition lies in the range, from {spec.start} to {spec.end}"
    word = spec.partition.lower()
    if word != "none" and not spec.partial:
        return f"no whole {word} partition lies in the range, from {spec.start} to {spec.end}"
    return f"the range is empty, from {spec.start} is not before to {spec.end}"


def _sentence(plan: Plan, job: Job) -> str:
    if not plan.work_units and not plan.skipped and not plan.left:
        spec = job.planning
        if plan.partitions:
            where = "the source" if spec.of_source else "the activation input"
            return f"Nothing is due: {where} has no units."
        return f"Nothing is due: {why_no_partition(spec)}."
    reasons = Counter(work_unit.reason.value for work_unit in plan.work_units)
    why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    due = f"{len(plan.work_units):,} due ({why})" if plan.work_units else "Nothing is due"
    not_due = plan.skipped - len(plan.missed) - plan.before_first - plan.closed_labels.left
    parts = [due, f"{not_due:,} not due (already done, or not yet)"]
    if plan.left:
        parts.append(f"{plan.left:,} more due beyond ms.work.unit.parallelism.max, left for later")
    return ", ".join(parts) + "."


def _table(
    work_units: Sequence[WorkUnit],
    plan: Plan,
    job: Job,
    arithmetic: Callable[[WorkUnit, Plan], str],
    *,
    signatures: bool,
) -> Iterator[str]:
    zone = find_zone(plan.zone)
    columns: dict[str, Callable[[WorkUnit], str]] = {"reason": lambda unit: unit.reason.value}
    if job.planning.is_dated:
        columns["from"] = lambda unit: moment(unit.low, zone)
        columns["to (exclusive)"] = lambda unit: moment(unit.high, zone)
    if any(work_unit.timelabel for work_unit in work_units):
        columns["timelabel"] = lambda unit: unit.timelabel or ""
    columns["unit"] = lambda unit: _unit_text(unit.unit_json)
    if signatures:
        columns["signature"] = lambda unit: one_line(unit.signature)
    rows = [["#", *columns, "why this window"]]
    for number, work_unit in enumerate(work_units, 1):
        first, *more = arithmetic(work_unit, plan).splitlines() or [""]
        cells = [str(number), *(text(work_unit) for text in columns.values())]
        rows.append([*cells, one_line(first)])
        rows += [[*[""] * len(cells), one_line(line)] for line in more]
    # The first column is aligned to the right, the other columns to the left. Lines are never
    # folded, because a terminal folds them better.
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        padded = [" " * (widths[0] - _width(first)) + first]
        padded += [
            cell + " " * (width - _width(cell))
            for cell, width in zip(others, widths[1:], strict=True)
        ]
        yield (" " * _GAP).join(padded).rstrip()


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese characters take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in {"W", "F"} for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _unit_text(unit_json: str) -> str:
    return "-" if unit_json == compact({}) else one_line(unit_json)


def stream_json(
    spec: StreamSpec, limit: int | None, known: StreamState | None
) -> dict[str, object]:
    """Return the stream as JSON; ``limit`` is the most work units of a micro-batch."""
    size = {
        "max_work_units": _batch_size(spec, limit),
        "max_rows": spec.max_rows,
        "max_bytes": spec.max_bytes,
    }
    return _stream_members(spec, size, known)


def query_stream_json(
    spec: StreamSpec, query: QuerySpec, known: StreamState | None
) -> dict[str, object]:
    """Return the stream of a derived dataset as JSON."""
    size = {"max_blocks": query.max_blocks, "max_rows": query.max_rows}
    return _stream_members(spec, size, known)


def _stream_members(
    spec: StreamSpec, size: dict[str, int | None], known: StreamState | None
) -> dict[str, object]:
    batch = None if known is None else known.batch
    return {
        "mode": spec.mode.value,
        "trigger": "available_now" if spec.every_ms is None else spec.every_ms,
        **size,
        "checkpoint": spec.checkpoint_dir,
        "epoch": None if batch is None else batch.epoch,
        "next_batch": 0 if batch is None else batch.number + 1,
    }


def stream_line(spec: StreamSpec, limit: int | None, due: int, known: StreamState | None) -> str:
    """Return one sentence on how ``due`` work units are read in micro-batches."""
    size = _batch_size(spec, limit)
    cut = "one micro-batch" if size is None else f"micro-batches of {size:,} at most"
    limits = (spec.max_rows, "row"), (spec.max_bytes, "byte")
    limited = [counted(most, noun) for most, noun in limits if most is not None]
    if limited:
        cut = f"micro-batches of about {' and '.join(limited)}"
    elif size is not None and due > size:
        cut = f"{ceil(due / size):,} {cut}"
    return _stream_sentence(spec, f"{counted(due, 'work unit')} due, in {cut}", known)


def query_stream_line(spec: StreamSpec, query: QuerySpec, known: StreamState | None) -> str:
    """Return one sentence on how new rows of a derived dataset's inputs are taken."""
    limits = (query.max_blocks, "block"), (query.max_rows, "row")
    limited = [counted(most, noun) for most, noun in limits if most is not None]
    cut = "one micro-batch takes all new rows"
    if limited:
        cut = f"a micro-batch takes at most {' and '.join(limited)} of each input"
    return _stream_sentence(spec, cut, known)


def _stream_sentence(spec: StreamSpec, what: str, known: StreamState | None) -> str:
    how = "until all is read"
    if spec.every_ms is not None:
        how = f"as a service that looks every {human_seconds(spec.every_ms / 1000)}"
    begins = "the first one begins an epoch"
    if known is not None:
        begins = f"the next is {known.batch.number + 1} of epoch {known.batch.epoch}"
    return f"A stream: {what}, {how}; {begins}."


def _batch_size(spec: StreamSpec, limit: int | None) -> int | None:
    return min((each for each in (spec.max_units, limit) if each is not None), default=None)
