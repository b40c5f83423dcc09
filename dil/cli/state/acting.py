"""How every verb that changes state goes about it: lease, preview, consent, one commit."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from dil.cli.invocation import real_clock
from dil.cli.job_command import JobCall, job_command, now_option
from dil.cli.state import proposing
from dil.cli.state.opening import opened
from dil.cli.stdout import emit
from dil.errors import ConfigError, StateError
from dil.model.dataset import Commit, Lease, Move, PublishedFile

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.json import JsonObject
    from dil.spi.state_store import StateStore
    from dil.state.operations import Proposal
    from dil.storage import Filesystem

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


def act_command(name: str) -> Callable[[Callable[..., int]], click.Command]:
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
        return click.command(name)(job_command()(decorated))

    return decorate


@dataclass(frozen=True, slots=True)
class FileChange:
    """What an act does to published files.

    ``touched`` are those of its work units, ``fate`` says what becomes of them. ``withdrawn`` leave
    the dataset, ``moves`` bring files back from the folder of the act ``source``. ``refusal`` is
    why the act is not done.
    """

    touched: tuple[PublishedFile, ...] = ()
    fate: str = "kept"
    withdrawn: tuple[PublishedFile, ...] = ()
    moves: tuple[Move, ...] = ()
    source: str = ""
    refusal: StateError | None = None


NO_FILES = FileChange()


@dataclass(frozen=True, slots=True)
class Desk:
    """A job's state under its lease, with no publish unfinished; ``lease`` is None for a look."""

    request: Request
    job: Job
    store: StateStore
    act_id: str
    now_ms: int
    lease: Lease | None

    def filesystem(self) -> Filesystem:
        """Return where the dataset is."""
        from dil.storage import filesystem_for

        return filesystem_for(self.job.publishing.final_dir)

    def live_files(self) -> tuple[PublishedFile, ...]:
        """Return the dataset's files that are live now."""
        from dil import publishing

        return publishing.live_files(self.filesystem(), publishing.dataset_dir(self.job.publishing))

    def grid(self) -> Mapping[int, int]:
        """Return the ends of the job's partitions by their starts; empty when the shape changed."""
        from dil import planning
        from dil.planning.partitions import partition

        if self.store.recorded_shape() not in (None, planning.shape(self.job.planning)):
            return {}
        partitions = partition(self.job.planning, now_ms=self.now_ms)
        return dict(zip(partitions.starts, partitions.ends, strict=True))


@contextlib.contextmanager
def at_desk(request: Request, verb: str) -> Iterator[Desk]:
    """Open the job's store under its lease.

    A look at a store that holds nothing takes no lease, because that would create it.

    Raises:
        ConfigError: the job keeps no state.
        LeaseHeldError: a run is under way.
        StateError: a publish was begun and not finished.
    """
    now_ms = request.call.invocation.now(request.now)
    with opened(request.call) as (job, store):
        if not job.state.enabled:
            raise ConfigError.single(
                "state.store.enabled",
                f"is off: nothing is remembered of {job.name}",
                "There is no state to change.",
                job.properties.origin("state.store.enabled"),
            )
        from dil.job import new_run_id
        from dil.state import LeaseKeeper

        act_id = f"{verb}-{new_run_id(real_clock())}"
        if store.head() is None and not (request.is_agreed or request.may_ask):
            yield Desk(request, job, store, act_id, now_ms, None)
            return
        lease = store.acquire_lease(act_id, lease_s=job.running.lease_s)
        with LeaseKeeper(store, lease, job.running.lease_s):
            _refuse_unfinished(job, store)
            yield Desk(request, job, store, act_id, now_ms, lease)


def _refuse_unfinished(job: Job, store: StateStore) -> None:
    intent = store.pending_intent()
    if intent is not None:
        raise StateError(
            f"job {json.dumps(job.name)}: {intent.commit.run_id} began to publish and was not "
            "finished, so that its state is about to change",
            "It is finished by the next `dil run`; then try again.",
        )


def file_change(
    desk: Desk, signatures: Collection[str], *, keep: bool, withdraw: bool
) -> FileChange:
    """Return what becomes of the live files of some work units that will be read again.

    Where a run only appends, their rows would be there twice: then one of both flags is needed.

    Raises:
        ConfigError: both flags are given.
    """
    if keep and withdraw:
        raise ConfigError.single("--keep-files", "and --withdraw-files exclude each other", "")
    if not signatures:
        return NO_FILES
    wanted = frozenset(signatures)
    touched = tuple(file for file in desk.live_files() if file.signature in wanted)
    return decided(desk, touched, keep=keep, withdraw=withdraw)


def decided(
    desk: Desk, touched: tuple[PublishedFile, ...], *, keep: bool, withdraw: bool
) -> FileChange:
    """Return what the flags and the publish mode make of files whose rows will be read again."""
    if not touched:
        return NO_FILES
    if withdraw:
        return FileChange(touched, "withdrawn from the dataset", withdrawn=touched)
    from dil.model.job import PublishMode

    mode = desk.job.publishing.mode
    if mode is not PublishMode.APPEND:
        return FileChange(touched, f"replaced by the next run ({mode.value})")
    refusal = None
    if not keep:
        rows = sum(file.rows for file in touched)
        refusal = StateError(
            f"{len(touched)} files of these work units with {rows} rows are published, and "
            "ms.publish.mode is append: the next run would publish these rows a second time",
            "Give --withdraw-files to take them out of the dataset, which undo brings back, or "
            "--keep-files if the files are gone otherwise or doubled rows are fine.",
        )
    return FileChange(touched, "kept", refusal=refusal)


def conclude(desk: Desk, proposal: Proposal, files: FileChange = NO_FILES) -> int:
    """Show what would change; do it when that is agreed to; return the exit code.

    Raises:
        StateError: the act is refused.
    """
    request = desk.request
    if proposal.is_empty and not (files.moves or files.withdrawn):
        preview = proposing.Preview(desk.job, proposal, no_plan="nothing changes")
        _tell(request, preview, None, None)
        return 0
    plan, no_plan = proposing.next_plan(desk.job, desk.store, proposal, desk.now_ms)
    preview = proposing.Preview(desk.job, proposal, files.touched, files.fate, plan, no_plan)
    if not request.call.as_json:
        proposing.show(preview)
    if files.refusal is not None and request.is_agreed:
        raise files.refusal
    if not _has_consent(request, files):
        if request.call.as_json:
            proposing.show_json(preview, act_id=None, block=None)
        else:
            emit("nothing was changed" + ("" if request.may_ask else "; --yes does it") + "\n")
        return 0
    block = _do(desk, proposal, files)
    _tell(request, preview, desk.act_id, block)
    return 0


def _has_consent(request: Request, files: FileChange) -> bool:
    if files.refusal is not None:
        if not request.call.as_json:
            emit(f"  needs a decision: {files.refusal.fix}\n")
        return False
    if request.is_agreed:
        return True
    return request.may_ask and click.confirm("Do it?", err=True)


def _tell(
    request: Request, preview: proposing.Preview, act_id: str | None, block: JsonObject | None
) -> None:
    if request.call.as_json:
        proposing.show_json(preview, act_id=act_id, block=block)
    elif act_id is None:
        emit(f"{preview.job.name}  {preview.proposal.verb}: nothing to change\n")
        for note in preview.proposal.notes:
            emit(f"  {note}\n")
    else:
        place = "" if block is None else f" in block {block['sequenceNumber']}"
        emit(f"done{place}: {act_id}; `dil state undo` takes it back\n")


def _do(desk: Desk, proposal: Proposal, files: FileChange) -> JsonObject | None:
    from dil import publishing
    from dil.publishing import withdrawal

    if desk.lease is None:
        raise AssertionError("an act needs the lease")
    spec, filesystem = desk.job.publishing, desk.filesystem()
    if files.withdrawn:
        withdrawal.require_recorded(desk.store)
        withdrawal.withdraw(filesystem, spec, desk.act_id, files.withdrawn)
    now = real_clock()
    commit = Commit(
        run_id=desk.act_id,
        config_digest=desk.job.digest,
        source_name=f"dil/{desk.job.name}",
        moves=files.moves,
        removes=files.withdrawn,
        outcomes=(),
        schema="",
        system_time=now,
        horizon=max(now, desk.now_ms),
        act=proposal.act(desk.request.reason or proposal.verb, desk.grid()),
    )
    block = publishing.publish(desk.store, desk.lease, commit, spec, filesystem)
    if files.source:
        withdrawal.sweep(filesystem, spec, files.source)
    return block
