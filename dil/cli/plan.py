"""``dil plan``: shows which work units a run would take now, and why; changes no state."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.stdout import emit, emit_json, results_only
from dil.config.state import PUBLISHED, StateSection
from dil.errors import ConfigError, DilError
from dil.model.stream import STREAM, StreamState
from dil.observe.event_view import events_json, judging_line
from dil.observe.plan_view import (
    plan_json,
    plan_text,
    query_stream_json,
    query_stream_line,
    stream_json,
    stream_line,
    summary_text,
)
from dil.observe.progress import counted
from dil.observe.query_view import query_json, query_text
from dil.observe.request_view import curl_line, masked_view, request_json, request_lines
from dil.planning.explanation import arithmetic, skip_reason
from dil.planning.plan_file import encode_plan, is_plan
from dil.run import event_time
from dil.run.forgetting import forgotten_by_plan
from dil.run.plan_builder import plan_with
from dil.run.process import real_clock
from dil.state import open_store
from dil.text.zones import find_zone, iso, moment

if TYPE_CHECKING:
    from dil.model.job import Job, QuerySpec
    from dil.model.report import EventSummary
    from dil.model.work_unit import Plan
    from dil.operator.amendments.expiring import ExpiringFiles
    from dil.planning import SavedPlan
    from dil.spi.state_store import StateStore

log = logging.getLogger(__name__)

# Flags whose parameters have other names than the flags.
_FLAGS = {"out_file": "out", "show_request": "show-request", "everything": "all"}


@click.command()
@job_command()
@now_option
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Show every due work unit, and why others are not due.",
)
@click.option("--short", is_flag=True, help="Show only how many work units are due, and why.")
@click.option(
    "--signatures",
    is_flag=True,
    help="Also show signatures, the names of work units in other commands.",
)
@click.option(
    "--out",
    "out_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the plan to a file; `dil run --plan FILE` runs exactly this plan.",
)
@click.option(
    "--show-request",
    is_flag=True,
    help="Show the first request, secrets masked, also as a curl command; nothing is sent.",
)
@click.option(
    "--signature",
    metavar="TEXT",
    help="Show the request of this work unit, not of the first due one.",
)
def plan(
    call: JobCall,
    *,
    now: str | None,
    out_file: Path | None,
    show_request: bool,
    signature: str | None,
    short: bool,
    **shown: bool,
) -> int:
    """Show which work units a run would take now, with the arithmetic of each window."""
    if signature is not None and not show_request:
        raise ConfigError.single(
            "--signature",
            "names the work unit for --show-request, which is not given",
            "Add --show-request. Use --signatures to see the signature of each work unit.",
        )
    with results_only():
        now_ms = call.invocation.now(now)
        job = call.job(secrets=False)
    if job.query is not None:
        return _plan_query(call, job, job.query, now_ms)
    with results_only():
        with open_store(job.state, job.name, clock=real_clock) as store:
            saved = plan_with(job, store, now_ms=now_ms, explain=shown["everything"])
            outlook = _Outlook.of(job, store, saved.plan)
        if out_file is not None:
            _keep(saved, out_file)
        request = _first_request(call, job, now_ms, signature) if show_request else None
    planned = saved.plan
    if call.as_json:
        asked = {} if request is None else {"request": request.members}
        emit_json({**plan_json(planned, job), **outlook.json(), **asked})
        return 0
    notes = tuple(outlook.notes())
    if short:
        emit(summary_text(planned, job, notes))
    else:
        text = plan_text(
            planned, job, arithmetic=arithmetic, skip_reason=skip_reason, notes=notes, **shown
        )
        emit(text)
    if request is not None:
        emit(request.text)
    if out_file is not None:
        flags = ", with the same -D flags," if call.definitions else ""
        command = f"dil run {call.job_file} --plan {out_file}"
        emit(f"\nWritten to {out_file}: {command}{flags} runs exactly this plan.\n")
    return 0


def _plan_query(call: JobCall, job: Job, spec: QuerySpec, now_ms: int) -> int:
    """Show which input rows a run of a derived dataset would take, without waiting for new rows."""
    from dil.run.queries.slices import as_plan, plan_slices, view_of_plan

    for name in ("out_file", "show_request", "everything", "signatures", "short"):
        if click.get_current_context().params.get(name):
            flag = f"--{_FLAGS.get(name, name)}"
            raise ConfigError.single(
                flag,
                "has no meaning for a job with ms.query.inputs: it has no work units of a source",
                "Leave it out.",
            )
    events = stream = None
    with results_only():
        found = plan_slices(job, spec, real_clock)
        view = view_of_plan(job, spec, found, now_ms)
        members = plan_json(as_plan(job, spec, found, now_ms), job) | query_json(view)
        if job.events is not None or job.stream is not None:
            with open_store(job.state, job.name, clock=real_clock) as store:
                events, stream = event_time.current(job, store), _stream_state(job, store)
    text = query_text(view)
    if events is not None:
        text += f"  {judging_line(events)}.\n"
        members["events"] = events_json(events)
    if job.stream is not None:
        text += f"  {query_stream_line(job.stream, spec, stream)}\n"
        members["stream"] = query_stream_json(job.stream, spec, stream)
    if call.as_json:
        emit_json(members)
    else:
        emit(text)
    return 0


def _stream_state(job: Job, store: StateStore) -> StreamState | None:
    """Return the newest micro-batch; None if there is none, or the job is no stream."""
    return None if job.stream is None else StreamState.of(store.checkpoint(STREAM))


@dataclass(frozen=True, slots=True)
class _Outlook:
    """What a run of a plan would meet or do beside reading its work units.

    ``due`` counts the work units of this run and of later ones. ``forgotten`` are the signatures of
    work units whose records the run would remove.
    """

    job: Job
    due: int
    events: EventSummary | None
    stream: StreamState | None
    expiring: ExpiringFiles | None
    forgotten: Sequence[str]

    @classmethod
    def of(cls, job: Job, store: StateStore, planned: Plan) -> _Outlook:
        """Return the outlook of a plan, from the job's state."""
        expiring = None
        if PUBLISHED in job.properties.section(StateSection).retention:
            from dil.operator.amendments.expiring import expiring_files

            try:
                expiring = expiring_files(job, store, planned.now)
            except (DilError, OSError) as error:
                log.warning("cannot determine which published files are due to expire: %s", error)
        return cls(
            job,
            len(planned.work_units) + planned.left,
            event_time.current(job, store),
            _stream_state(job, store),
            expiring,
            [each.signature for each in forgotten_by_plan(job, store, planned)],
        )

    def json(self) -> dict[str, object]:
        """Return the JSON members, only those that the job has."""
        members: dict[str, object] = {}
        if self.expiring is not None:
            until = self.expiring.published_until
            members["expiring"] = {
                "files": self.expiring.files,
                "bytes": self.expiring.bytes,
                "published_until": until,
                "published_until_iso": iso(until),
            }
        if self.events is not None:
            members["events"] = events_json(self.events)
        if self.job.stream is not None:
            members["stream"] = stream_json(self.job.stream, self.job.planning.limit, self.stream)
        if self.forgotten:
            members["forgets"] = self.forgotten
        return members

    def notes(self) -> Iterator[str]:
        """Yield sentences for people."""
        job, expiring = self.job, self.expiring
        if job.stream is not None:
            yield stream_line(job.stream, job.planning.limit, self.due, self.stream)
        if self.events is not None:
            yield f"{judging_line(self.events)}."
        if expiring is not None:
            until = moment(expiring.published_until, find_zone(job.planning.zone))
            yield (
                f"Due to expire: {counted(expiring.files, 'file')} of {expiring.bytes:,} bytes, "
                f"published up to {until}; `dil state expire {shlex.quote(job.path)}` deletes them."
            )
        if self.forgotten and job.publishing.replaces_once:
            yield (
                f"The run forgets {counted(len(self.forgotten), 'work unit')}, for example "
                f"{self.forgotten[0]}: earlier runs published their rows, this run replaces the "
                "dataset and does not read these work units, or not as far. Later runs read them "
                "again if they are in the job's range and units."
            )


@dataclass(frozen=True, slots=True)
class _ShownRequest:
    """The first request of a work unit, for people and machines; None if it is not known."""

    text: str
    members: dict[str, object] | None


def _first_request(call: JobCall, job: Job, now_ms: int, signature: str | None) -> _ShownRequest:
    from dil.operator.previewed_units import preview_request

    unit, view = preview_request(job, now_ms=now_ms, signature=signature, clock=real_clock)
    if unit is None or view is None:
        return _ShownRequest("\nno request is known before the run\n", None)
    clean = masked_view(view, call.invocation.redact)
    lines = [f"first request of {unit.signature}", *request_lines(clean), curl_line(clean)]
    text = "\n  ".join(filter(None, lines))
    return _ShownRequest(f"\n{text}\n", {"signature": unit.signature, **request_json(clean)})


def _keep(saved: SavedPlan, out_file: Path) -> None:
    try:
        if out_file.exists() and not is_plan(out_file.read_bytes()):
            raise ConfigError.single(
                "--out",
                f'"{out_file}" exists and is not a plan, so it is not overwritten',
                "Name another file.",
            )
        out_file.write_bytes(encode_plan(saved))
    except OSError as error:
        raise ConfigError.single(
            "--out",
            f'"{out_file}" cannot be written: {error.strerror}',
            "Name a file in an existing folder that this user may write to.",
        ) from None
