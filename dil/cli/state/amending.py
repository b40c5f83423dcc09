"""The common steps of verbs that amend state: lease, preview, consent, one commit."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dil.cli.arguments import utf_8_text
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state import previewing
from dil.cli.state.opening import opened
from dil.cli.stdout import emit
from dil.errors import ConfigError
from dil.operator.amendments import OperatorSession, Preview, apply, open_session
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.json import JsonObject

_PARAMETERS = (
    click.option("--yes", is_flag=True, help="Act. Without it only the preview is shown."),
    click.option(
        "--reason",
        metavar="TEXT",
        callback=utf_8_text,
        default="",
        help="The reason, which the chain keeps.",
    ),
    now_option,
)


@dataclass(frozen=True, slots=True)
class Request:
    """The options that every amending command takes."""

    call: JobCall
    is_agreed: bool
    reason: str
    now: str | None

    @property
    def may_ask(self) -> bool:
        """Return whether there is a terminal to ask for consent."""
        return not self.is_agreed and not self.call.as_json and sys.stdin.isatty()


def act_command(
    name: str, summary: str | None = None
) -> Callable[[Callable[..., int]], click.Command]:
    """Make a command of a function that takes a ``Request`` and options of its own.

    ``summary`` describes the command in lists, if the table of its group does not describe it.
    """

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
def operator_session(request: Request, verb: str) -> Iterator[OperatorSession]:
    """Open the job's store and a session in it for one act.

    Raises:
        ConfigError: the job file is wrong, or the job keeps no state.
        LeaseHeldError: a run is under way.
        StateError: an earlier publish is unfinished.
    """
    now_ms = request.call.invocation.now(request.now)
    with opened(request.call) as (job, store):
        is_dry_run = not (request.is_agreed or request.may_ask)
        with open_session(
            job, store, verb, now_ms=now_ms, clock=real_clock, is_dry_run=is_dry_run
        ) as session:
            yield session


def conclude(request: Request, session: OperatorSession, preview: Preview) -> int:
    """Show what would change, apply it with the operator's consent, and return the exit code.

    Raises:
        ConfigError: --yes is given without a decision about published files.
        StateError: the act is refused.
    """
    if preview.is_empty:
        _show_end(request, preview, None, None)
        return 0
    if not request.call.as_json:
        is_agreed = request.is_agreed and preview.files.refusal is None
        previewing.show(preview, is_agreed=is_agreed)
    if not _has_consent(request, preview):
        if request.call.as_json:
            previewing.show_json(preview, act_id=None, block=None)
        elif preview.files.needs:
            emit(f"nothing was changed; --yes with {_needed(preview)} does it\n")
        elif request.may_ask:
            emit("nothing was changed\n")
        else:
            emit("nothing was changed; --yes does it\n")
        return 0
    block = apply(session, preview, request.reason)
    _show_end(request, preview, session.act_id, block)
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


def _needed(preview: Preview) -> str:
    return " or ".join(preview.files.needs)


def _show_end(
    request: Request, preview: Preview, act_id: str | None, block: JsonObject | None
) -> None:
    """Print the act that was done, or that there was nothing to change."""
    if request.call.as_json:
        previewing.show_json(preview, act_id=act_id, block=block)
    elif act_id is None:
        emit(f"{preview.job.name}  {preview.proposal.verb}: nothing to change\n")
        for note in preview.proposal.notes:
            emit(f"  {note}\n")
    else:
        place = "" if block is None else f" in block {block['sequenceNumber']}"
        undo = "`dil state undo` takes it back"
        way_back = undo if preview.is_undoable else "this cannot be undone"
        emit(f"done{place}: {act_id}; {way_back}\n")
