"""``dil preview`` and ``dil check``: try the source before a run, without changing state."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.stdout import emit, emit_json, results_only
from dil.run.process import cache_dir, real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.source_preview import SourceAnswer, SourcePreview

_ROWS = 3
send_option = click.option(
    "--send", is_flag=True, help="Also where the request may change something at the source."
)


@click.command(short_help="Show the first rows of the source and their columns.")
@job_command()
@now_option
@click.option(
    "--rows",
    metavar="N",
    type=click.IntRange(min=1, max=10_000),
    default=_ROWS,
    show_default=True,
    help="How many rows to show.",
)
@click.option("--signature", metavar="TEXT", help="Of this work unit, not of the first due one.")
@send_option
def preview(call: JobCall, *, now: str | None, rows: int, signature: str | None, send: bool) -> int:
    """Show the first rows as a run would write them, and their columns.

    Asks the source for as many pages as it takes. Nothing is kept: no state, no file.
    """
    with results_only():
        job = call.job()
        found = _preview(call, job, now, rows, signature=signature, send=send)
    if call.as_json:
        emit_json(_preview_json(job, found))
    else:
        _preview_text(job, found)
    return 0


@click.command(short_help="Reach destination, state store and source: connect, log in, ask once.")
@job_command()
@now_option
@send_option
def check(call: JobCall, *, now: str | None, send: bool) -> int:
    """Check that a run would reach what it needs.

    That is where rows go (folders, table or database, catalog), state, secondary input,
    credentials, source. Sends one request, as a run would. Exit code 1 when something cannot be
    reached, 2 when a setting does not fit what is there.
    """
    with results_only():
        job = call.job()
        places = _places(job)
        found = _preview(call, job, now, rows=1, signature=None, send=send)
    if call.as_json:
        emit_json({"job": job.name, "ok": True, **_answers_json(found)})
    else:
        _check_text(job, found, places)
    return 0


def _places(job: Job) -> tuple[str, ...]:
    # Imported here: a job file that is wrong is told at once.
    from dil.run import preflight

    return preflight.look(job, os.environ, cache_dir(os.environ))


def _preview(
    call: JobCall, job: Job, now: str | None, rows: int, *, signature: str | None, send: bool
) -> SourcePreview:
    # Imported here: a job file that is wrong is told at once.
    from dil.operator.source_preview import preview_source

    return preview_source(
        job,
        now_ms=call.invocation.now(now),
        rows=rows,
        signature=signature,
        clock=real_clock,
        may_send=send,
    )


def _preview_json(job: Job, found: SourcePreview) -> dict[str, object]:
    from dil.observe.preview_view import columns_json, rows_json

    return {
        "job": job.name,
        "signature": found.work_unit.signature if found.work_unit else None,
        "low": found.work_unit.low if found.work_unit else None,
        "high": found.work_unit.high if found.work_unit else None,
        "due": found.is_due,
        "schema": columns_json(found.rows.schema),
        "rows": rows_json(found.rows),
        "dropped": found.dropped,
        "notes": list(found.notes),
        **_answers_json(found),
    }


def _answers_json(found: SourcePreview) -> dict[str, object]:
    return {
        "requests": [
            {
                "location": answer.location,
                "status": answer.status,
                "content_type": answer.content_type,
                "milliseconds": round(answer.seconds * 1000),
                "warning": answer.warning,
            }
            for answer in found.answers
        ]
    }


def _preview_text(job: Job, found: SourcePreview) -> None:
    from dil.observe.preview_view import rows_text, schema_text

    _head(job, found)
    if found.rows.num_rows:
        emit(f"\n{rows_text(found.rows)}")
    else:
        emit("\nno rows\n")
    for note in found.notes:
        emit(f"  note: {note}\n")
    if found.rows.num_rows and job.extraction.output_schema is None:
        emit("\nThe columns are inferred from these pages. To keep them as they are:\n\n")
        emit(schema_text(found.rows))


def _head(job: Job, found: SourcePreview) -> None:
    from dil.text.zones import find_zone, moment

    unit, zone = found.work_unit, find_zone(job.planning.zone)
    if unit is None:
        emit(f"{job.name}  no work unit\n")
        return
    window = f"{moment(unit.low, zone)} .. {moment(unit.high, zone)}"
    due = "due now" if found.is_due else "not due"
    emit(f"{job.name}  {unit.signature}\n  {window} {job.planning.zone}, {due}\n")
    for answer in found.answers:
        emit(f"  {_answer_text(answer)}\n")


def _check_text(job: Job, found: SourcePreview, places: Iterable[str]) -> None:
    _head(job, found)
    state = job.state.place if job.state.enabled else "none is kept"
    emit(f"  state: {state}\n")
    for place in places:
        emit(f"  {place}\n")
    for note in found.notes:
        emit(f"  note: {note}\n")
    rows = "its first page has rows" if found.rows.num_rows else "its first page has no rows"
    if found.work_unit is None:
        rows = "it has nothing to read"
    emit(f"{job.name}  the source answers, {rows}\n")


def _answer_text(answer: SourceAnswer) -> str:
    parts = [answer.location]
    parts += [str(answer.status)] if answer.status else []
    parts += [answer.content_type] if answer.content_type else []
    parts += [f"{answer.seconds * 1000:,.0f} ms"]
    parts += [answer.warning] if answer.warning else []
    return "  ".join(parts)
