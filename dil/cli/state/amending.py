"""The common steps of verbs that amend state: lease, preview, consent, one commit."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click

from dil.cli.arguments import utf_8_text
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state import previewing
from dil.cli.state.opening import opened
from dil.cli.stdout import emit, emit_lines
from dil.errors import ConfigError, DilError
from dil.operator.amendments import OperatorSession, Preview, apply, open_session
from dil.run.process import real_clock

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

    @property
    def is_dry_run(self) -> bool:
        """Return whether the command can only show a preview."""
        return not (self.is_agreed or self.may_ask)

    def has_consent(self, refusal: DilError | None = None, needs: Sequence[str] = ()) -> bool:
        """Return whether the operator agrees, and nothing speaks against the act.

        ``refusal`` speaks against it; each of the options in ``needs`` would lift the refusal.

        Raises:
            ConfigError: --yes is given without one of the needed options.
            DilError: --yes is given, and no option lifts the refusal.
        """
        if refusal is None:
            return self.is_agreed or (self.may_ask and click.confirm("Do it?", err=True))
        if not self.is_agreed:
            return False
        if not needs:
            raise refusal
        what = f"decides nothing: {refusal.message}"
        raise ConfigError.single(f"--yes without {' or '.join(needs)}", what, refusal.fix)


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
    is_dry_run = request.is_dry_run
    with (
        opened(request.call) as (job, store),
        open_session(
            job, store, verb, now_ms=now_ms, clock=real_clock, is_dry_run=is_dry_run
        ) as session,
    ):
        yield session


def conclude(request: Request, session: OperatorSession, preview: Preview) -> int:
    """Show what would change, apply it with the operator's consent, and return the exit code.

    Raises:
        ConfigError: --yes is given without a decision about published files.
        StateError: the act is refused.
    """
    as_json, files = request.call.as_json, preview.files
    act_id = block = None
    if not preview.is_empty:
        if not as_json:
            previewing.show(preview, is_agreed=request.is_agreed and files.refusal is None)
        if request.has_consent(files.refusal, files.needs):
            block = apply(session, preview, request.reason)
            act_id = session.act_id
    if as_json:
        previewing.show_json(preview, act_id=act_id, block=block)
    elif preview.is_empty:
        emit(f"{preview.job.name}  {preview.proposal.verb}: nothing to change\n")
        emit_lines(f"  {note}" for note in preview.proposal.notes)
    elif act_id is not None:
        place = "" if block is None else f" in block {block['sequenceNumber']}"
        undo = "`dil state undo` takes it back"
        way_back = undo if preview.is_undoable else "this cannot be undone"
        emit(f"done{place}: {act_id}; {way_back}\n")
    elif files.refusal is not None:
        emit(f"  needs a decision: {files.refusal.fix}\n")
        emit(f"nothing was changed; --yes with {' or '.join(files.needs)} does it\n")
    elif request.may_ask:
        emit("nothing was changed\n")
    else:
        emit("nothing was changed; --yes does it\n")
    return 0
