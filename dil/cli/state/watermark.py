"""``dil state watermark``: shows the event watermark, sets it, and takes the setting back."""

from __future__ import annotations

import click

from dil.cli.state.amending import Request, act_command, operator_session
from dil.cli.state.opening import instant, opened
from dil.cli.stdout import emit, emit_json
from dil.errors import ConfigError
from dil.observe.event_view import events_json, kept_lines, time_text
from dil.operator.event_watermark import (
    apply_watermark,
    event_spec,
    propose_undo,
    propose_watermark,
)
from dil.run import event_time


@act_command("watermark")
@click.option("--set", "to", metavar="TIME", help="Set it to 2024-03-05T06:00:00Z; forward only.")
@click.option(
    "--undo", is_flag=True, help="Take the last --set back, unless a run has used the watermark."
)
def watermark(request: Request, *, to: str | None, undo: bool) -> int:
    """Show the watermark of event time, set it, or undo the last change.

    The watermark judges the rows of the next run, and can never go back once a run has used it.
    """
    if to is not None and undo:
        raise ConfigError.single("--set", "and --undo exclude each other", "Give one of them.")
    if to is None and not undo:
        return _show(request)
    with operator_session(request, "watermark") as session:
        if to is None:
            change = propose_undo(session)
        else:
            at = instant(to, "--set", session.job, session.now_ms)
            change = propose_watermark(session, at, request.reason)
        job = session.job
        if not request.call.as_json:
            emit(f"{job.name}  watermark of event time, times in UTC\n")
            emit(f"  now    {time_text(change.before)}\n  then   {time_text(change.after)}\n")
            emit("  rows with earlier times are late from the next run on\n")
        is_agreed = request.is_agreed or (request.may_ask and click.confirm("Do it?", err=True))
        if is_agreed:
            apply_watermark(session, change)
        if request.call.as_json:
            members = {"before": change.before, "after": change.after}
            emit_json({"job": job.name, "applied": is_agreed, **members})
        elif is_agreed:
            emit(
                "done; `dil state watermark JOB.conf --undo` takes it back until a run has "
                "published\n"
            )
        else:
            emit("nothing was changed; --yes does it\n")
    return 0


def _show(request: Request) -> int:
    with opened(request.call) as (job, store):
        event_spec(job)
        found = event_time.current(job, store)
        if found is None:
            raise AssertionError("a job with an event column has a watermark")
        if request.call.as_json:
            emit_json({"job": job.name, "events": events_json(found)})
            return 0
        emit(f"{job.name}  times in UTC\n")
        for text in kept_lines(found):
            emit(f"{text}\n")
    return 0
