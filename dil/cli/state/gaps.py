"""``dil state gaps``: shows the read and the unread stretches of time of each unit."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option, refuse_derived
from dil.cli.state.opening import instant, opened
from dil.cli.stdout import emit
from dil.observe.logs import one_line
from dil.observe.progress import counted
from dil.operator.gaps import JobGaps, find_gaps
from dil.planning.gaps import GapStatus
from dil.text.zones import find_zone, iso, moment

if TYPE_CHECKING:
    from dil.model.job import Job

_LINE = "  {:<29} {:<29} {:>12}  {}\n"


@click.command()
@job_command()
@now_option
@click.option("--from", "low", metavar="TIME", help="Begin here, not at the watermark's from.")
@click.option("--to", "high", metavar="TIME", help="End here, not at the watermark's to.")
def gaps(call: JobCall, *, now: str | None, low: str | None, high: str | None) -> int:
    """Show for each unit which time was read, and which was not.

    A stretch of time is committed, failed, skipped, never (read), or open: the job does not read it
    yet. The exit code is 0 even if there are gaps.
    """
    with opened(call) as (job, store):
        refuse_derived(
            job, "dil state gaps", "`dil plan JOB.conf` shows the new rows of each input."
        )
        now_ms = call.invocation.now(now)
        found = find_gaps(
            job,
            store,
            now_ms=now_ms,
            low=None if low is None else instant(low, "--from", job, now_ms),
            high=None if high is None else instant(high, "--to", job, now_ms),
        )
    if call.as_json:
        _show_json(job, found)
    else:
        _show_text(job, found)
    return 0


def _show_json(job: Job, found: JobGaps) -> None:
    written = cache(lambda ms: json.dumps(iso(ms)))  # units share their instants
    low, high = found.window.low, found.window.high
    head = f'"job": {json.dumps(job.name)}, "from": {written(low)}, "to": {written(high)}'
    emit(f'{{{head}, "from_ms": {low}, "to_ms": {high}, "units": [')
    separator = "\n"
    for unit in found.units:
        # Each unit is a line that is made of texts, because there may be a million stretches.
        intervals = ", ".join(
            f'{{"from": {written(each.low)}, "to": {written(each.high)}, "from_ms": {each.low}, '
            f'"to_ms": {each.high}, "status": "{each.status}"}}'
            for each in unit.stretches
        )
        mark = "" if unit.in_job else '"in_job": false, '
        line = f'{{"unit": {_members(unit.unit_key)}, {mark}"intervals": [{intervals}]}}'
        if not emit(f"{separator}{line}"):
            return
        separator = ",\n"
    emit("]}\n")


def _members(unit_key: str) -> str:
    """Return the unit as JSON, with numbers as written; a key that is not JSON becomes a text."""
    text = unit_key[max(0, unit_key.find("{")) :]
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(unit_key)
    return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)


def _show_text(job: Job, found: JobGaps) -> None:
    zone = find_zone(job.planning.zone)
    written = cache(lambda ms: moment(ms, zone))
    low, high = found.window.low, found.window.high
    emit(f"{job.name}  {written(low)} .. {written(high)}, times in {job.planning.zone}\n")
    own = sum(unit.in_job for unit in found.units)
    with_gaps = found.units_with(GapStatus.FAILED, GapStatus.NEVER)
    times = found.time_by_status()
    parts = [f"{status} {_length(times[status])}" for status in GapStatus if times[status]]
    emit(f"  {counted(own, 'unit')}, {with_gaps:,} with gaps: {', '.join(parts) or 'no time'}\n")
    if gone := len(found.units) - own:
        emit(f"  {counted(gone, 'unit')} more only in the state\n")
    if job.planning.units is None:
        emit(
            "  units come from an input or the source, which was not asked: only recorded units "
            "are listed\n"
        )
    if not job.state.enabled:
        emit("  the job keeps no state (state.store.enabled=false), so nothing is known\n")
    for unit in found.units:
        mark = "" if unit.in_job else "  (no unit of the job any more)"
        lines = "".join(
            _LINE.format(
                written(each.low), written(each.high), _length(each.high - each.low), each.status
            )
            for each in unit.stretches
        )
        if not emit(f"\n{one_line(unit.unit_key)}{mark}\n{lines}"):
            break


def _length(ms: int) -> str:
    """Return a length of time with its two largest parts: ``12 d 6 h``, ``45 min``, ``1.5 s``."""
    days, rest = divmod(ms, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    named = ((days, "d"), (hours, "h"), (minutes, "min"))
    first = next((at for at, (number, _) in enumerate(named) if number), len(named))
    parts = [f"{number:,} {name}" for number, name in named[first : first + 2] if number]
    if rest and first >= len(named) - 1:
        parts.append(f"{rest / 1000:g} s")
    return " ".join(parts) or "0 s"
