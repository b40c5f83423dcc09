"""How every verb that changes state goes about it: lease, preview, consent, one commit."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state import proposing
from dil.cli.state.opening import opened
from dil.cli.stdout import emit
from dil.errors import ConfigError
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.json import JsonObject
    from dil.operator.acts import Desk, Preview

_PARAMETERS = (
    click.option("--yes", is_flag=True, help="Do it. Without it only the preview is shown."),
    click.option("--reason", metavar="TEXT", default="", help="Why, kept in the chain."),
    now_option,
)


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line says of one act, beside what the act is about."""

    call: JobCall
    is_agreed: bool
    reason: str
    now: str | None

    @property
    def may_ask(self) -> bool:
        """Tell whether somebody is there to consent."""
        return not self.is_agreed and not self.call.as_json and sys.stdin.isatty()


def act_command(name: str, summary: str) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command of a function that takes a ``Request`` and its own options."""

    def decorate(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def command(
            call: JobCall, *, yes: bool, reason: str, now: str | None, **own: object
        ) -> int:
            return function(Request(call, yes, reason, now), **own)

        decorated: Callable[..., int] = command
        for parameter in reversed(_PARAMETERS):
            decorated = parameter(decorated)
        return click.command(name, short_help=summary)(job_command()(decorated))

    return decorate


@contextlib.contextmanager
def at_desk(request: Request, verb: str) -> Iterator[Desk]:
    """Open the job's store and its desk for one act.

    Raises:
        ConfigError: the job file is wrong, or the job keeps no state.
        LeaseHeldError: a run is under way.
        StateError: a publish was begun and not finished.
    """
    now_ms = request.call.invocation.now(request.now)
    with opened(request.call) as (job, store):
        from dil.operator.acts import open_desk

        is_look = not (request.is_agreed or request.may_ask)
        with open_desk(job, store, verb, now_ms=now_ms, clock=real_clock, is_look=is_look) as desk:
            yield desk


def conclude(request: Request, desk: Desk, preview: Preview) -> int:
    """Show what would change; do it when that is agreed to; return the exit code.

    Raises:
        ConfigError: it is agreed to, but not decided what becomes of published files.
        StateError: the act is refused.
    """
    from dil.operator.acts import perform

    if preview.is_empty:
        _tell(request, preview, None, None)
        return 0
    if not request.call.as_json:
        proposing.show(preview)
    if not _has_consent(request, preview):
        if request.call.as_json:
            proposing.show_json(preview, act_id=None, block=None)
        else:
            emit(f"nothing was changed{_hint(request, preview)}\n")
        return 0
    block = perform(desk, preview, request.reason)
    _tell(request, preview, desk.act_id, block)
    return 0


def _has_consent(request: Request, preview: Preview) -> bool:
    refusal = preview.files.refusal
    if refusal is None:
        return request.is_agreed or (request.may_ask and click.confirm("Do it?", err=True))
    if request.is_agreed:
        raise ConfigError.single(
            f"--yes without {_needed(preview)}", f"decides nothing: {refusal.message}", refusal.fix
        )
    if not request.call.as_json:
        emit(f"  needs a decision: {refusal.fix}\n")
    return False


def _hint(request: Request, preview: Preview) -> str:
    """Return what would have it done; nothing where somebody was asked and said no."""
    if preview.files.needs:
        return f"; --yes with {_needed(preview)} does it"
    return "" if request.may_ask else "; --yes does it"


def _needed(preview: Preview) -> str:
    return " or ".join(preview.files.needs)


def _tell(request: Request, preview: Preview, act_id: str | None, block: JsonObject | None) -> None:
    if request.call.as_json:
        proposing.show_json(preview, act_id=act_id, block=block)
    elif act_id is None:
        emit(f"{preview.job.name}  {preview.proposal.verb}: nothing to change\n")
        for note in preview.proposal.notes:
            emit(f"  {note}\n")
    else:
        place = "" if block is None else f" in block {block['sequenceNumber']}"
        emit(f"done{place}: {act_id}; {_way_back(preview)}\n")


def _way_back(preview: Preview) -> str:
    if preview.is_undoable:
        return "`dil state undo` takes it back"
    return "this cannot be undone"
