"""``dil backfill publish`` and ``undo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dil.cli.backfill import showing
from dil.cli.backfill.asking import backfill_id_argument, options_of
from dil.cli.state.acting import Request, act_command, conclude
from dil.cli.state.opening import opened
from dil.errors import ConfigError, StateError
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.acts import Desk
    from dil.operator.backfill.proposing import How, Publication
    from dil.operator.backfill.standing import Standing


@act_command("publish", "Publish what a backfill holds.")
@backfill_id_argument
@click.option("--append", is_flag=True, help="Rows come beside those of the same work units.")
@click.option("--replace", "is_replace", is_flag=True, help="Rows take the place of those.")
@click.option("--partial", is_flag=True, help="What is not read or stale stays out for good.")
def publish(
    request: Request, *, backfill_id: str, append: bool, is_replace: bool, partial: bool
) -> int:
    """Let the rows of a backfill take the place of those that its work units have now.

    With ms.publish.mode=merge they are merged; with append, --append or --replace decides. The
    job's watermark stays. Killed, the same command or the next run finishes it.
    """
    call = request.call
    now_ms = call.invocation.now(request.now)
    with opened(call) as (job, store):
        from dil.operator.backfill import proposing, publishing
        from dil.operator.backfill.definition import named
        from dil.operator.backfill.standing import Status

        definition = named(job, backfill_id)
        how = _how(job, append=append, is_replace=is_replace)
        is_look = not (request.is_agreed or request.may_ask)
        with publishing.open_desk(
            job, store, definition, now_ms=now_ms, clock=real_clock, is_look=is_look
        ) as desk:
            found = proposing.propose(desk, definition, how, is_partial=partial)
            if found.standing.status is Status.UNDONE:
                return _publish_again(request, desk, found)
            if found.standing.status is Status.PUBLISHED:
                showing.tell_publication(call, found, act_id=found.standing.act_id, is_done=False)
                return 0
            if not call.as_json:
                showing.show_publication(job, found)
            if not _has_consent(request, found):
                showing.tell_publication(call, found, act_id=None, is_done=False)
                return 0
            publishing.perform(desk, found, options_of(call, now_ms), request.reason)
            showing.tell_publication(call, found, act_id=desk.act_id, is_done=True)
    return 0


@act_command("undo", "Bring back what a published backfill replaced.")
@backfill_id_argument
def undo(request: Request, *, backfill_id: str) -> int:
    """Bring the earlier files back and take those of the backfill out.

    It must be the last act of an operator; of other acts, `dil state undo` takes back the last.
    """
    call = request.call
    now_ms = call.invocation.now(request.now)
    with opened(call) as (job, store):
        from dil.operator.acts import propose_undo
        from dil.operator.backfill import publishing
        from dil.operator.backfill.definition import named
        from dil.operator.backfill.standing import Status, standing_of

        definition = named(job, backfill_id)
        with publishing.open_desk(
            job,
            store,
            definition,
            now_ms=now_ms,
            clock=real_clock,
            is_look=not (request.is_agreed or request.may_ask),
            verb="undo",
        ) as desk:
            standing = standing_of(job, definition, real_clock)
            if standing.status is Status.UNDONE:
                showing.tell_undone(call, standing)
                return 0
            if standing.status is not Status.PUBLISHED:
                raise ConfigError.single(
                    "ID",
                    f"{backfill_id} is {standing.status}: there is nothing to bring back",
                    "`dil backfill drop` deletes what it holds.",
                )
            _refuse_buried(standing)
            return conclude(request, desk, propose_undo(desk))


def _how(job: Job, *, append: bool, is_replace: bool) -> How:
    """Return what the flags say.

    Raises:
        ConfigError: both are given, or the publish mode leaves nothing to decide.
    """
    from dil.model.job import PublishMode
    from dil.operator.backfill.proposing import How

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
            "Leave it out: the rows come in as the job publishes.",
        )
    if append:
        return How.APPEND
    return How.REPLACE if is_replace else How.UNDECIDED


def _has_consent(request: Request, found: Publication) -> bool:
    """Tell whether the publication is agreed to and nothing speaks against it.

    Raises:
        ConfigError: it is agreed to and not decided how.
        StateError: it is agreed to and refused.
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


def _publish_again(request: Request, desk: Desk, found: Publication) -> int:
    """Take the undo of a published backfill back."""
    from dil.operator.acts import propose_undo

    _refuse_buried(found.standing)
    return conclude(request, desk, propose_undo(desk))


def _refuse_buried(standing: Standing) -> None:
    if not standing.is_last_act:
        raise StateError(
            f"publishing backfill {standing.definition.id} is not the last act: operators changed "
            "the state since",
            "`dil state log` shows the acts; `dil state undo` takes back the last one.",
        )
