"""``dil backfill publish`` and ``undo``."""

from __future__ import annotations

import click

from dil.cli.backfill import backfill_id_argument
from dil.cli.backfill.listing import status_json
from dil.cli.job_command import JobCall
from dil.cli.state.amending import Request, act_command, conclude
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_json
from dil.errors import ConfigError, StateError
from dil.model.job import Job, PublishMode
from dil.observe.progress import counted
from dil.operator.amendments import propose_undo
from dil.operator.backfill import publication, publishing
from dil.operator.backfill.definition import find_backfill
from dil.operator.backfill.publication import Publication, RowDecision
from dil.operator.backfill.status import BackfillStatus, Phase, read_status
from dil.run.process import real_clock


@act_command("publish")
@backfill_id_argument
@click.option("--append", is_flag=True, help="Add the rows to the rows of the same work units.")
@click.option(
    "--replace", "is_replace", is_flag=True, help="Replace the rows of the same work units."
)
@click.option(
    "--partial",
    is_flag=True,
    help="Publish without unread and changed work units, which stay out for good.",
)
def publish(
    request: Request, *, backfill_id: str, append: bool, is_replace: bool, partial: bool
) -> int:
    """Replace the rows of the work units by those of a backfill.

    With ms.publish.mode=merge rows are merged; with append, --append or --replace decides. The
    job's watermark stays. If the command is killed, the same command or the next run finishes the
    act.
    """
    call = request.call
    now_ms = call.invocation.now(request.now)
    with opened(call) as (job, store):
        definition = find_backfill(job, backfill_id)
        decision = _row_decision(job, append=append, is_replace=is_replace)
        with publishing.open_session(
            job, store, definition, now_ms=now_ms, clock=real_clock, is_dry_run=request.is_dry_run
        ) as session:
            found = publication.propose_publication(
                session, definition, decision, is_partial=partial
            )
            if found.status.phase is Phase.UNDONE:
                # Undoing the undo publishes the backfill again.
                _require_last_act(found.status)
                return conclude(request, session, propose_undo(session))
            if found.status.phase is Phase.PUBLISHED:
                _show_end(call, found, act_id=found.status.act_id, is_done=False)
                return 0
            if not call.as_json:
                _show_preview(job, found)
            if not request.has_consent(found.refusal, found.needs):
                _show_end(call, found, act_id=None, is_done=False)
                return 0
            from dil.cli.run import run_options  # a preview and ``undo`` run no tasks

            publishing.publish(session, found, run_options(call, now_ms), request.reason)
            _show_end(call, found, act_id=session.act_id, is_done=True)
    return 0


@act_command("undo")
@backfill_id_argument
def undo(request: Request, *, backfill_id: str) -> int:
    """Bring the earlier files back and remove those of the backfill.

    The backfill must be the last act of an operator; `dil state undo` takes back other last acts.
    """
    call = request.call
    now_ms = call.invocation.now(request.now)
    with opened(call) as (job, store):
        definition = find_backfill(job, backfill_id)
        with publishing.open_session(
            job,
            store,
            definition,
            now_ms=now_ms,
            clock=real_clock,
            is_dry_run=request.is_dry_run,
            verb="undo",
        ) as session:
            status = read_status(job, definition, real_clock)
            if status.phase is Phase.UNDONE:
                if call.as_json:
                    emit_json(status_json(status))
                else:
                    again = "`dil backfill publish` publishes it again"
                    emit(f"undone already: {status.act_id}; {again}\n")
                return 0
            if status.phase is not Phase.PUBLISHED:
                raise ConfigError.single(
                    "ID",
                    f"{backfill_id} is {status.phase}: there are no rows to bring back",
                    "`dil backfill drop` deletes its files.",
                )
            _require_last_act(status)
            return conclude(request, session, propose_undo(session))


def _row_decision(job: Job, *, append: bool, is_replace: bool) -> RowDecision:
    """Return the operator's decision about rows.

    Raises:
        ConfigError: both options are given, or the publish mode leaves nothing to decide.
    """
    if append and is_replace:
        raise ConfigError.single(
            "--append", "and --replace exclude each other", "Give one of them."
        )
    mode = job.publishing.mode
    is_merged = mode is PublishMode.MERGE
    if (append and mode is not PublishMode.APPEND) or (is_replace and is_merged):
        raise ConfigError.single(
            "--append" if append else "--replace",
            f"is for jobs that append; ms.publish.mode is {mode.value}",
            "Leave it out: the rows are published in the job's mode.",
        )
    if append:
        return RowDecision.APPEND
    return RowDecision.REPLACE if is_replace else RowDecision.UNDECIDED


def _require_last_act(status: BackfillStatus) -> None:
    if not status.is_last_act:
        raise StateError(
            f"publishing backfill {status.definition.id} is not the last act: operators changed "
            "the state since",
            "`dil state log` shows the acts; `dil state undo` takes back the last one.",
        )


def _show_preview(job: Job, found: Publication) -> None:
    """Print what publishing a backfill would change."""
    name = found.status.definition.id
    units = counted(len(found.work_units), "work unit")
    emit(f"{job.name}  publish backfill {name}  {units}, {found.mode.value}\n")
    rows = sum(file.rows for file in found.files)
    emit(f"  in: {counted(len(found.files), 'file')} with {counted(rows, 'row')}\n")
    if found.removed:
        rows = sum(file.rows for file in found.removed)
        emit(f"  out: {counted(len(found.removed), 'file')} with {counted(rows, 'row')}\n")
    if found.late:
        emit(
            f"  out: {counted(len(found.late), 'file')} of late rows beside the dataset; the "
            "backfill has these rows in the dataset\n"
        )
    if found.changed:
        emit(
            "  failed before, and counted as read from now on: "
            f"{counted(len(found.changed), 'work unit')}\n"
        )
    if found.stale:
        emit(
            "  left out, because they changed since the backfill began: "
            f"{counted(len(found.stale), 'work unit')}\n"
        )
    emit("  the watermark stays\n")
    if found.refusal is not None:
        why = f"{found.refusal.message}\n    {found.refusal.fix}".rstrip()
        emit(f"  cannot be published in this way: {why}\n")


def _show_end(call: JobCall, found: Publication, *, act_id: str | None, is_done: bool) -> None:
    """Print how a publication ended."""
    if call.as_json:
        emit_json(_json(found, act_id=act_id, is_done=is_done))
    elif is_done:
        emit(f"done: {act_id}; `dil backfill undo` takes it back\n")
    elif act_id is not None:
        emit(f"published already: {act_id}; `dil backfill undo` takes it back\n")
    else:
        hint = "" if found.refusal is not None else "; --yes does it"
        emit(f"nothing was changed{hint}\n")


def _json(found: Publication, *, act_id: str | None, is_done: bool) -> dict[str, object]:
    """Return the changes of a backfill's publication as JSON members."""
    status = found.status
    return {
        "job": status.definition.job,
        "verb": "publish",
        "backfill": status.definition.id,
        "applied": is_done,
        "act": act_id,
        "status": "published" if is_done else status.phase.value,
        "mode": found.mode.value,
        "work_units": [unit.signature for unit in found.work_units],
        "left_out": list(found.stale),
        "recovered": [entry.signature for entry in found.changed],
        "files": {
            "in": len(found.files),
            "rows": sum(file.rows for file in found.files),
            "out": len(found.removed),
            "rows_out": sum(file.rows for file in found.removed),
            "late_out": len(found.late),
        },
        "needs": list(found.needs),
        "refused": None if found.refusal is None or is_done else found.refusal.message,
    }
