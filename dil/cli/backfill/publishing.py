"""``dil backfill publish`` and ``undo``."""

from __future__ import annotations

import click

from dil.cli.backfill import showing
from dil.cli.backfill.options import backfill_id_argument, options_of
from dil.cli.state.amending import Request, act_command, conclude
from dil.cli.state.opening import opened
from dil.errors import ConfigError, StateError
from dil.model.job import Job, PublishMode
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
        is_dry_run = not (request.is_agreed or request.may_ask)
        with publishing.open_session(
            job, store, definition, now_ms=now_ms, clock=real_clock, is_dry_run=is_dry_run
        ) as session:
            found = publication.propose_publication(
                session, definition, decision, is_partial=partial
            )
            if found.status.phase is Phase.UNDONE:
                # Undoing the undo publishes the backfill again.
                _require_last_act(found.status)
                return conclude(request, session, propose_undo(session))
            if found.status.phase is Phase.PUBLISHED:
                showing.show_publication_end(call, found, act_id=found.status.act_id, is_done=False)
                return 0
            if not call.as_json:
                showing.show_publication(job, found)
            if not _has_consent(request, found):
                showing.show_publication_end(call, found, act_id=None, is_done=False)
                return 0
            publishing.publish(session, found, options_of(call, now_ms), request.reason)
            showing.show_publication_end(call, found, act_id=session.act_id, is_done=True)
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
            is_dry_run=not (request.is_agreed or request.may_ask),
            verb="undo",
        ) as session:
            status = read_status(job, definition, real_clock)
            if status.phase is Phase.UNDONE:
                showing.show_undone(call, status)
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


def _has_consent(request: Request, found: Publication) -> bool:
    """Return whether the operator agrees to publish, and nothing speaks against it.

    Raises:
        ConfigError: --yes is given without a decision.
        StateError: --yes is given, but the publication is refused.
    """
    refusal = found.refusal
    if refusal is None:
        return request.is_agreed or (request.may_ask and click.confirm("Do it?", err=True))
    if not request.is_agreed:
        return False
    if found.needs:
        needed = " or ".join(found.needs)
        raise ConfigError.single(
            f"--yes without {needed}", f"decides nothing: {refusal.message}", refusal.fix
        )
    raise refusal


def _require_last_act(status: BackfillStatus) -> None:
    if not status.is_last_act:
        raise StateError(
            f"publishing backfill {status.definition.id} is not the last act: operators changed "
            "the state since",
            "`dil state log` shows the acts; `dil state undo` takes back the last one.",
        )
