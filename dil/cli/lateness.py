"""``dil lateness``: how far behind new rows came, and the effect of each grace period.

A row is behind if newer rows were published before it came. A row is *late* if its event time is
below the watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.state.opening import opened
from dil.cli.stdout import emit_json, emit_lines
from dil.errors import ConfigError
from dil.eventtime.lateness import LEAST_COMMITS, LEAST_ROWS, LatenessMeter
from dil.model.grace import GraceMode
from dil.model.interval import DAY_MS
from dil.observe.progress import counted, human_seconds
from dil.planning.explanation import period
from dil.planning.grace import share_text
from dil.run.grace_measure import lateness_meter

if TYPE_CHECKING:
    from dil.model.job import Job

_COLUMN = "ms.event.column"
_DAY_S = 86_400
_ROW = "  {:<18} {:>14} {:>9}"
_GRACE = "  {:<18} {:>14} {:>9} {:>16}  {}"


@click.command()
@job_command()
def lateness(call: JobCall) -> int:
    """Show how far behind new rows came, and how many rows each grace period would miss and read.

    The last commits with new rows measured it. The command changes nothing.
    """
    with opened(call) as (job, store):
        if job.events is None:
            fix = "Set it; docs/lateness.md says how."
            raise ConfigError.single(
                _COLUMN,
                "is not set: without the event time of rows, no row is behind another",
                fix,
            )
        column, meter = job.events.column, lateness_meter(store)
    if call.as_json:
        histogram = meter.histogram
        emit_json(
            {
                "rows": histogram.rows,
                "histogram": [
                    {"le_ms": edge, "rows": rows} for edge, rows in histogram.ascending()
                ],
                "grace": [
                    {"days": each.days, "missed": each.missed, "reread_rows": each.reread_rows}
                    for each in meter.costs(job.planning.grace.high_ms)
                ],
                "recommended": _recommended_days(job, meter),
            }
        )
    else:
        emit_lines(_lines(job, column, meter))
    return 0


def _recommended_days(job: Job, meter: LatenessMeter) -> int | None:
    """Return the recommended grace period in whole days; None while too little is measured."""
    ms = meter.recommended_ms(job.planning.grace)
    return None if ms is None else -(-ms // DAY_MS)


def _lines(job: Job, column: str, meter: LatenessMeter) -> Iterator[str]:
    histogram = meter.histogram
    rows, commits = histogram.rows, len(meter.commits)
    yield f"{job.name}  how far behind new rows came, by {_COLUMN}={column}"
    yield f"  {counted(rows, 'new row')} in {counted(commits, 'commit')}"
    if not job.publishing.keeps_files:
        yield "  rows that are read again are not compared with rows of a database"
    if not rows:
        yield "  nothing is measured yet: later rows are compared with those of the first commit"
        return
    yield ""
    yield from _advice(job, meter)
    yield ""
    yield _ROW.format("behind by at most", "rows", "share")
    for edge, count in histogram.ascending():
        yield _ROW.format(_length(edge), f"{count:,}", _share(count, rows))
    yield ""
    yield _GRACE.format("grace period", "rows missed", "share", "read again", "").rstrip()
    chosen = _recommended_days(job, meter)
    for each in meter.costs(job.planning.grace.high_ms):
        mark = "recommended" if each.days == chosen else ""
        days, share = counted(each.days, "day"), _share(each.missed, rows)
        line = _GRACE.format(days, f"{each.missed:,}", share, f"{each.reread_rows:,}", mark)
        yield line.rstrip()
        if not each.missed and (chosen is None or each.days >= chosen):
            return  # longer grace periods would miss no row, either


def _advice(job: Job, meter: LatenessMeter) -> Iterator[str]:
    grace, weighed = job.planning.grace, meter.weighed
    ms = meter.recommended_ms(grace)
    if ms is None and not meter.has_read_back:
        yield (
            "Nothing is recommended: no run read back, so no run could see rows that came behind. "
            "Set ms.grace.period.days, or ms.grace.mode=auto, whose probes look for them."
        )
        return
    if ms is None:
        yield (
            f"Nothing is recommended yet: {weighed.rows:,} of {LEAST_ROWS:,} new rows, in "
            f"{len(meter.commits)} of {LEAST_COMMITS} commits, are measured."
        )
        return
    beyond = meter.histogram.rows - weighed.rows
    if beyond:
        yield (
            f"{counted(beyond, 'row')} came further behind than the grace period of their run,"
            " which found them by chance. They do not count: only a probe finds all such rows."
        )
    yield (
        f"Recommended: {period(ms)}. Of {weighed.rows:,} rows {share_text(grace)} % were no further"
        " behind (ms.grace.quantile)."
    )
    reach = max(each.grace_ms for each in meter.commits)
    if not any(each.is_probe for each in meter.commits):
        yield (
            f"No run read back further than {period(reach)}, so it is not known how many rows come "
            "further behind."
        )
    if job.planning.once:
        yield "This job reads each file once, whenever it comes: it needs no grace period."
    elif grace.mode is GraceMode.AUTO:
        yield (
            "ms.grace.mode is auto: the next run reads back as far, or ms.grace.max if it is a "
            "probe."
        )
    else:
        yield "To let each run follow the measurements, put into the job file:\n"
        yield "  ms.grace.mode=auto\n\nor, to keep today's result:\n"
        yield f"  ms.grace.mode=fixed\n  ms.grace.period={period(ms)}"


def _length(ms: int) -> str:
    """Return how far behind a row is, as people say it."""
    if not ms:
        return "not behind"
    seconds = ms / 1000
    if seconds < 1:
        return f"{ms} ms"
    if seconds < 2 * _DAY_S:
        return human_seconds(seconds)
    return f"{seconds / _DAY_S:.1f} days"


def _share(rows: int, of: int) -> str:
    return f"{100 * rows / of:.4g} %"
