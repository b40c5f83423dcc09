"""Event time for people and machines: the watermark, its bound, and the counts of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from dil.model.report import EventSummary
from dil.observe.progress import counted, human_seconds
from dil.text.zones import iso

_MOST_IDLE = 3


def events_json(found: EventSummary) -> dict[str, object]:
    """Return the members of ``events``; times are in epoch ms UTC and in ISO 8601."""
    return {
        "column": found.column,
        "strategy": found.strategy,
        "late_action": found.action or None,
        "judged_by": found.judged_by,
        "judged_by_iso": iso(found.judged_by),
        "watermark": found.watermark,
        "watermark_iso": iso(found.watermark),
        "bound_ms": found.bound_ms,
        "phase": found.phase or None,
        "partitions": found.partitions,
        "idle_partitions": found.idle_partitions,
        "idle": list(found.idle),
        **asdict(found.counts),
    }


def watermark_text(found: EventSummary) -> str:
    """Return the watermark with its strategy, bound and idle partitions, in one line."""
    return f"{time_text(found.watermark)} ({_strategy_text(found)})"


def _strategy_text(found: EventSummary) -> str:
    about = [found.strategy]
    if found.bound_ms is not None:
        about.append(f"{human_seconds(found.bound_ms / 1000)} behind")
    about += [found.phase] if found.phase else []
    if found.partitions > 1:
        about.append(f"{found.partitions:,} partitions")
    if found.idle_partitions and found.partitions > 1:
        rest = ", ..." if found.idle_partitions > _MOST_IDLE else ""
        named = ", ".join(found.idle[:_MOST_IDLE]) + rest
        about.append(f"{found.idle_partitions:,} idle: {named}")
    return ", ".join(about)


def judging_line(found: EventSummary) -> str:
    """Return a line on the watermark that judges the next run's rows, and on late rows."""
    fate = {
        "": "late rows are counted",
        "flag": "late rows are marked",
        "drop": "late rows are left out",
        "fail": "late rows fail their work unit",
        "side_table": "late rows go beside the dataset",
    }[found.action]
    if found.strategy == "none":
        return f"Event time {found.column}: no row is late, because ms.event.watermark is none"
    judge = time_text(found.judged_by)
    what = f"rows are late below {judge}" if found.judged_by is not None else "no row is late yet"
    is_named = found.judged_by is not None and found.judged_by == found.watermark
    watermark = _strategy_text(found) if is_named else watermark_text(found)
    return f"Event time {found.column}: {what}, {fate}; watermark {watermark}"


def kept_lines(found: EventSummary) -> Iterator[str]:
    """Yield the lines of `dil state show` about the rows of all runs."""
    yield f"  {judging_line(found)}"
    counts = found.counts
    parts = [f"{counted(counts.rows, 'row')} judged in all", f"{counts.late:,} late"]
    if counts.late:
        parts[-1] += f" by {human_seconds(counts.most_late_ms / 1000)} at most"
    parts += [f"{counts.dropped:,} of them left out"] if counts.dropped else []
    parts += [f"{counts.beside:,} of them beside the dataset"] if counts.beside else []
    parts += [f"{counts.refused:,} put aside for their time"] if counts.refused else []
    parts += [f"{counts.nulls:,} without time"] if counts.nulls else []
    yield f"  {', '.join(parts)}"


def time_text(ms: int | None) -> str:
    """Return a watermark as text for people."""
    return "none yet" if ms is None else iso(ms) or f"{ms} ms"


def lines(found: EventSummary) -> Iterator[tuple[str, str]]:
    """Yield the lines of a run's summary, each with its label."""
    if found.strategy != "none":
        yield "event time", watermark_text(found)
    counts = found.counts
    if counts.late:
        what = (
            f"{counted(counts.late, 'row')}, by {human_seconds(counts.most_late_ms / 1000)} at most"
        )
        judged = f"; judged by {time_text(found.judged_by)}"
        fate = f"; {counts.dropped:,} left out" if counts.dropped else ""
        fate += f"; {counts.beside:,} beside the dataset" if counts.beside else ""
        yield "late", f"{what}{fate}{judged}"
    aside = []
    if counts.refused:
        aside.append(f"{counted(counts.refused, 'row')} put aside for their time")
    if counts.nulls:
        aside.append(f"{counted(counts.nulls, 'row')} without event time")
    if counts.unjudged:
        aside.append(f"{counted(counts.unjudged, 'row')} read again, not judged")
    if aside:
        yield "times", ", ".join(aside)
