"""``dil preview`` and ``dil check``: try the source before a run, without changing state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.stdout import emit, emit_json, results_only
from dil.conversion.iso_texts import word_of_texts
from dil.errors import DilError
from dil.model.job import Job, OutputFormat
from dil.observe.preview_view import columns_json, rows_json, rows_text, schema_text
from dil.observe.property_places import with_places
from dil.observe.report import note_label
from dil.observe.request_view import curl_line, masked_view, request_json, request_lines
from dil.operator.source_preview import PreviewLimits, SourceAnswer, SourcePreview, preview_source
from dil.run import claim, preflight
from dil.run.options import RunOptions
from dil.run.process import cache_dir, real_clock
from dil.text.zones import find_zone, moment

if TYPE_CHECKING:
    import pyarrow as pa

    from dil.spi.request_view import RequestView

_ROWS = 3
_INSTEAD = (
    "`dil validate JOB.conf` checks the job, and `dil plan JOB.conf` shows which rows of its "
    "inputs a run would read."
)
show_request_option = click.option(
    "--show-request", is_flag=True, help="Also print each request as a curl command."
)
send_option = click.option(
    "--send", is_flag=True, help="Send the request even if it may change something at the source."
)


@click.command()
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
@click.option("--signature", metavar="TEXT", help="Try this work unit, not the first due one.")
@show_request_option
@send_option
def preview(
    call: JobCall,
    *,
    now: str | None,
    rows: int,
    signature: str | None,
    show_request: bool,
    send: bool,
) -> int:
    """Show the first rows as a run would write them, and their columns.

    The command asks the source for as many pages as that takes; if the first due work unit has no
    rows, it asks for the next ones. It keeps no state and no files.
    """
    command = _PreviewCommand(call, now, show_curl=show_request, may_send=send)
    with results_only():
        job = call.source_job("dil preview", _INSTEAD)
        found = command.preview(job, rows, signature=signature, skips_empty=True)
    if call.as_json:
        emit_json(
            {
                "job": job.name,
                "signature": found.work_unit.signature if found.work_unit else None,
                "low": found.work_unit.low if found.work_unit else None,
                "high": found.work_unit.high if found.work_unit else None,
                "due": found.is_due,
                "schema": columns_json(found.rows.schema),
                "rows": rows_json(found.rows),
                "dropped": found.dropped,
                **_answers_json(command, job, found),
            }
        )
        return 0
    _head(command, job, found)
    if found.rows.num_rows:
        emit(f"\n{rows_text(found.rows)}")
    else:
        emit("\nno rows\n")
    for note in _notes(command, job, found):
        emit(f"  {note_label(note)}: {note}\n")
    if found.rows.num_rows and job.extraction.output_schema is None:
        emit("\nThe columns are inferred from these pages. To keep them so:\n\n")
        emit(schema_text(found.rows, _words_of_texts(found.rows, job)))
    return 0


@click.command()
@job_command()
@now_option
@show_request_option
@send_option
def check(call: JobCall, *, now: str | None, show_request: bool, send: bool) -> int:
    """Check that a run can reach its destination, state, inputs and source.

    Destinations are folders, a table or database, a catalog. The source gets one request, as in a
    run. The exit code is 1 if something cannot be reached, 2 if a setting does not fit the
    destination or the state.
    """
    command = _PreviewCommand(call, now, show_curl=show_request, may_send=send)
    with results_only():
        job = call.source_job("dil check", _INSTEAD)
        claim.check_claim(job, RunOptions(call.invocation.now(now), real_clock))
        places = preflight.check_outputs(job, os.environ, cache_dir(os.environ))
        found = command.preview(job, rows=1)
    if call.as_json:
        emit_json({"job": job.name, "ok": True, **_answers_json(command, job, found)})
        return 0
    _head(command, job, found)
    state = job.state.place if job.state.enabled else "none is kept"
    emit(f"  state: {state}\n")
    for place in places:
        emit(f"  {place}\n")
    for note in _notes(command, job, found):
        emit(f"  {note_label(note)}: {note}\n")
    answer = "its first page has rows" if found.rows.num_rows else "its first page has no rows"
    if found.work_unit is None:
        answer = "it has nothing to read"
    emit(f"{job.name}  the source answers, {answer}\n")
    return 0


@dataclass(frozen=True, slots=True)
class _PreviewCommand:
    """A command that asks the source, and shows whole requests with masked secrets."""

    call: JobCall
    now: str | None
    show_curl: bool
    may_send: bool

    def preview(
        self, job: Job, rows: int, *, signature: str | None = None, skips_empty: bool = False
    ) -> SourcePreview:
        """Ask the source; if a request fails, show that request on standard error."""
        asked: list[RequestView] = []
        try:
            return preview_source(
                job,
                now_ms=self.call.invocation.now(self.now),
                rows=rows,
                signature=signature,
                clock=real_clock,
                rules=PreviewLimits(
                    may_send=self.may_send, skips_empty=skips_empty, on_request=asked.append
                ),
            )
        except DilError:
            for view in asked[-1:]:
                click.echo("\n".join(("the request was:", *self.lines(view))), err=True)
            raise

    def lines(self, view: RequestView) -> Iterator[str]:
        """Yield the lines of a request."""
        clean = masked_view(view, self.call.invocation.redact)
        yield from request_lines(clean)
        if self.show_curl and clean.is_http:
            yield f"  {curl_line(clean)}"

    def json(self, view: RequestView | None) -> dict[str, object] | None:
        """Return a request as JSON members; None if there is no request."""
        return (
            None if view is None else request_json(masked_view(view, self.call.invocation.redact))
        )


def _notes(command: _PreviewCommand, job: Job, found: SourcePreview) -> list[str]:
    clean = command.call.invocation.redact
    return [clean(with_places(note, job.properties.origin)) for note in found.notes]


def _answers_json(command: _PreviewCommand, job: Job, found: SourcePreview) -> dict[str, object]:
    return {
        "notes": _notes(command, job, found),
        "requests": [
            {
                "location": answer.location,
                "request": command.json(answer.request),
                "status": answer.status,
                "content_type": answer.content_type,
                "milliseconds": round(answer.seconds * 1000),
                "warning": answer.warning,
            }
            for answer in found.answers
        ],
    }


def _words_of_texts(rows: pa.Table, job: Job) -> dict[str, str]:
    """Return the types of columns whose texts are dates or times in ISO 8601; keys stay texts."""
    digits = 3 if job.writing.format is OutputFormat.AVRO else 6
    texts = [each.name for each in rows.schema if each.type == "string"]
    found = {name: word_of_texts(rows[name].combine_chunks(), digits) for name in texts}
    keys = job.extraction.primary_keys
    return {name: word for name, word in found.items() if word and name not in keys}


def _head(command: _PreviewCommand, job: Job, found: SourcePreview) -> None:
    unit, zone = found.work_unit, find_zone(job.planning.zone)
    if unit is None:
        emit(f"{job.name}  no work unit\n")
        return
    due = "due now" if found.is_due else "not due"
    if job.planning.is_dated:
        window = f"{moment(unit.low, zone)} .. {moment(unit.high, zone)} {job.planning.zone}"
        emit(f"{job.name}  {unit.signature}\n  {window}, {due}\n")
    else:  # the job has no range of time
        emit(f"{job.name}  {unit.signature}\n  {due}\n")
    for number, answer in enumerate(found.answers):
        for line in _answer_lines(command, answer, is_first=number == 0):
            emit(f"  {line}\n")


def _answer_lines(
    command: _PreviewCommand, answer: SourceAnswer, *, is_first: bool
) -> Iterator[str]:
    """Yield the first request in full and the address of later ones, then the answers."""
    parts = [str(answer.status)] if answer.status else []
    parts += [answer.content_type] if answer.content_type else []
    parts += [f"{answer.seconds * 1000:,.0f} ms"]
    parts += [answer.warning] if answer.warning else []
    if answer.request is None:
        yield "  ".join([answer.location, *parts])
        return
    lines = list(command.lines(answer.request))
    yield from lines if is_first or command.show_curl else lines[:1]
    yield f"answered: {'  '.join(parts)}"
