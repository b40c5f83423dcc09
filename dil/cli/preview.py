"""``dil preview`` and ``dil check``: try the source before a run, without changing state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.stdout import emit, emit_json, emit_lines, results_only
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
    with results_only():
        job = call.source_job("dil preview", _INSTEAD)
        view = _View(call, job, show_curl=show_request)
        limits = PreviewLimits(may_send=send, skips_empty=True)
        found = view.ask(now, rows, limits, signature)
    if call.as_json:
        unit = found.work_unit
        emit_json(
            {
                "job": job.name,
                "signature": unit.signature if unit else None,
                "low": unit.low if unit else None,
                "high": unit.high if unit else None,
                "due": found.is_due,
                "schema": columns_json(found.rows.schema),
                "rows": rows_json(found.rows),
                "dropped": found.dropped,
                **view.answers_json(found),
            }
        )
        return 0
    emit_lines(view.head(found))
    emit(f"\n{rows_text(found.rows)}" if found.rows.num_rows else "\nno rows\n")
    emit_lines(view.notes(found))
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
    with results_only():
        job = call.source_job("dil check", _INSTEAD)
        view = _View(call, job, show_curl=show_request)
        claim.check_claim(job, RunOptions(call.invocation.now(now), real_clock))
        places = preflight.check_outputs(job, os.environ, cache_dir(os.environ))
        found = view.ask(now, 1, PreviewLimits(may_send=send))
    if call.as_json:
        emit_json({"job": job.name, "ok": True, **view.answers_json(found)})
        return 0
    emit_lines(view.head(found))
    emit(f"  state: {job.state.place if job.state.enabled else 'none is kept'}\n")
    emit_lines(f"  {place}" for place in places)
    emit_lines(view.notes(found))
    answer = "its first page has rows" if found.rows.num_rows else "its first page has no rows"
    if found.work_unit is None:
        answer = "it has nothing to read"
    emit(f"{job.name}  the source answers, {answer}\n")
    return 0


@dataclass(frozen=True, slots=True)
class _View:
    """Asks the source of a job, and shows requests and answers with masked secrets."""

    call: JobCall
    job: Job
    show_curl: bool

    def ask(
        self, now: str | None, rows: int, limits: PreviewLimits, signature: str | None = None
    ) -> SourcePreview:
        """Ask the source; if a request fails, show that request on standard error."""
        asked: list[RequestView] = []
        try:
            return preview_source(
                self.job,
                now_ms=self.call.invocation.now(now),
                rows=rows,
                signature=signature,
                clock=real_clock,
                rules=replace(limits, on_request=asked.append),
            )
        except DilError:
            for view in asked[-1:]:
                click.echo("\n".join(("the request was:", *self._request(view))), err=True)
            raise

    def head(self, found: SourcePreview) -> Iterator[str]:
        """Yield the lines about the work unit and the answers of the source."""
        unit, job = found.work_unit, self.job
        if unit is None:
            yield f"{job.name}  no work unit"
            return
        yield f"{job.name}  {unit.signature}"
        zone, due = find_zone(job.planning.zone), "due now" if found.is_due else "not due"
        if job.planning.is_dated:
            window = f"{moment(unit.low, zone)} .. {moment(unit.high, zone)}"
            yield f"  {window} {job.planning.zone}, {due}"
        else:  # the job has no range of time
            yield f"  {due}"
        for number, answer in enumerate(found.answers):
            for line in self._answer(answer, is_first=number == 0):
                yield f"  {line}"

    def _answer(self, answer: SourceAnswer, *, is_first: bool) -> Iterator[str]:
        """Yield the first request in full and the address of later ones, then the answer."""
        parts = [str(answer.status)] if answer.status else []
        parts += [answer.content_type] if answer.content_type else []
        parts += [f"{answer.seconds * 1000:,.0f} ms"]
        parts += [answer.warning] if answer.warning else []
        if answer.request is None:
            yield "  ".join([answer.location, *parts])
            return
        lines = list(self._request(answer.request))
        yield from lines if is_first or self.show_curl else lines[:1]
        yield f"answered: {'  '.join(parts)}"

    def _request(self, view: RequestView) -> Iterator[str]:
        clean = masked_view(view, self.call.invocation.redact)
        yield from request_lines(clean)
        if self.show_curl and clean.is_http:
            yield f"  {curl_line(clean)}"

    def notes(self, found: SourcePreview) -> Iterator[str]:
        """Yield the lines with the notes, each with its label."""
        for note in self._notes(found):
            yield f"  {note_label(note)}: {note}"

    def _notes(self, found: SourcePreview) -> list[str]:
        redact, places = self.call.invocation.redact, self.job.properties.origin
        return [redact(with_places(note, places)) for note in found.notes]

    def answers_json(self, found: SourcePreview) -> dict[str, object]:
        """Return notes, requests and answers as JSON members."""
        redact = self.call.invocation.redact
        return {
            "notes": self._notes(found),
            "requests": [
                {
                    "location": answer.location,
                    "request": None
                    if answer.request is None
                    else request_json(masked_view(answer.request, redact)),
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
