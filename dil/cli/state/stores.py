"""``dil state upgrade``, ``backup``, ``restore`` and ``copy``: move a job's whole state."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit, emit_json, results_only
from dil.errors import ConfigError
from dil.observe.progress import counted
from dil.operator import state_stores
from dil.run.process import real_clock

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.operator.state_stores import TransferPreview
    from dil.state.transfer import StoredState

_yes_option = click.option(
    "--yes", is_flag=True, help="Do it. Without it only the preview is shown."
)
_file_argument = click.argument(
    "file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path)
)


@click.command()
@job_command()
@_yes_option
def upgrade(call: JobCall, *, yes: bool) -> int:
    """Copy a state store of an older format and upgrade it, for all jobs in it.

    The next run does the same. Earlier releases refuse the store from then on.
    """
    job = _job(call)
    look = state_stores.preview_upgrade(job, real_clock)
    is_done = False
    if not look.copy:
        _say(call, f"{job.name}  upgrade: {look.place} has format {look.format}, nothing to change")
    else:
        _say(call, f"{job.name}  upgrade  {look.place} from format {look.format} to {look.to}")
        _say(call, f"  {counted(len(look.jobs), 'job')} in it: {', '.join(look.jobs)}")
        _say(call, f"  kept as it is: {look.copy}")
        _say(call, "  earlier releases refuse it from then on")
        is_done = _has_consent(call, yes=yes)
        if is_done:
            state_stores.upgrade(job, real_clock)
    if call.as_json:
        members = {"place": look.place, "format": look.format, "to": look.to}
        known = {"jobs": list(look.jobs), "copy": look.copy or None}
        emit_json({"job": job.name, "verb": "upgrade", "applied": is_done, **members, **known})
    elif is_done:
        emit(f"done: {look.place} has format {look.to}\n")
    return 0


@click.command()
@job_command()
@_file_argument
@_yes_option
def backup(call: JobCall, *, file: Path, yes: bool) -> int:
    """Write the job's state to FILE, an SQLite file, also while the job runs.

    The file can be restored to a store of any kind.
    """
    job = _job(call)
    look = state_stores.preview_backup(job, file, real_clock)
    _show(call, job, "backup", look)
    is_done = _has_consent(call, yes=yes)
    if is_done:
        state_stores.back_up(job, file, real_clock)
    return _show_outcome(call, job, "backup", look, is_done=is_done)


@click.command()
@job_command()
@_file_argument
@_yes_option
def restore(call: JobCall, *, file: Path, yes: bool) -> int:
    """Replace the job's state by the state in FILE.

    FILE is a backup, or a copy of a whole SQLite store. The replaced state is kept beside it.
    """
    job = _job(call)
    look = state_stores.preview_restore(job, file, real_clock)
    _show(call, job, "restore", look)
    is_done = _has_consent(call, yes=yes)
    kept = state_stores.restore(job, file, real_clock) if is_done else None
    return _show_outcome(call, job, "restore", look, is_done=is_done, kept=kept)


@click.command("copy")
@job_command()
@click.option(
    "--to", "target", metavar="KEY=VALUE", multiple=True, required=True,
    help="A state.store property of the other store. May be given many times.",
)  # fmt: skip
@_yes_option
def copy_state(call: JobCall, *, target: tuple[str, ...], yes: bool) -> int:
    """Copy the job's state to another store, of any kind.

    The job uses the store that its file names: change the job file next.
    """
    for text in target:
        if not text.startswith("state.store."):
            raise ConfigError.single(
                "--to",
                f'"{text}" is no state.store property',
                "For example state.store.type=mysql.",
            )
    job = _job(call)
    other = _job(replace(call, definitions=(*call.definitions, *target)))
    look = state_stores.preview_copy(job, other, real_clock)
    _show(call, job, "copy", look)
    _say(call, f"  {look.source} does not change, and the job uses it until its file names")
    _say(call, f"  {look.target}; a run before that makes the copy out of date")
    is_done = _has_consent(call, yes=yes)
    if is_done:
        state_stores.copy(job, other, real_clock)
    return _show_outcome(call, job, "copy", look, is_done=is_done)


def _job(call: JobCall) -> Job:
    with results_only():
        job = call.job(secrets=False)
    if not job.state.enabled:
        raise ConfigError.single(
            "state.store.enabled",
            f"is off: {job.name} has no state",
            "There is no state to move.",
            job.properties.origin("state.store.enabled"),
        )
    return job


def _say(call: JobCall, line: str) -> None:
    if not call.as_json:
        emit(f"{line}\n")


def _has_consent(call: JobCall, *, yes: bool) -> bool:
    """Return whether --yes is given, or the operator agrees; if not, say that nothing changes."""
    may_ask = not yes and not call.as_json and sys.stdin.isatty()
    if yes or (may_ask and click.confirm("Do it?", err=True)):
        return True
    _say(call, "nothing was changed" if may_ask else "nothing was changed; --yes does it")
    return False


def _show(call: JobCall, job: Job, verb: str, look: TransferPreview) -> None:
    _say(call, f"{job.name}  {verb}  from {look.source}")
    _say(call, f"{' ' * len(job.name)}  {' ' * len(verb)}  to   {look.target}")
    _say(call, f"  to be written: {_words(look.moved)}")
    if not look.replaced.is_empty:
        _say(call, f"  to be replaced: {_words(look.replaced)}")
        if (look.replaced.head or 0) > (look.moved.head or 0):
            _say(
                call, "  later runs than that block are forgotten: rows that they published may be"
            )
            _say(call, "  read and published again")


def _words(found: StoredState) -> str:
    head = "no block" if found.head is None else f"blocks up to {found.head}"
    parts = [head, counted(found.rows["work_unit"], "work unit"), counted(found.rows["run"], "run")]
    if found.unfinished is not None:
        parts.append(f"the unfinished publish of {found.unfinished}")
    return ", ".join(parts)


def _show_outcome(
    call: JobCall,
    job: Job,
    verb: str,
    look: TransferPreview,
    *,
    is_done: bool,
    kept: Path | None = None,
) -> int:
    if call.as_json:
        emit_json(
            {
                "job": job.name,
                "verb": verb,
                "applied": is_done,
                "from": look.source,
                "to": look.target,
                "written": _members(look.moved),
                "replaced": None if look.replaced.is_empty else _members(look.replaced),
                "kept": None if kept is None else str(kept),
            }
        )
    elif is_done:
        emit(f"done: {look.target} holds {_words(look.moved)}, read back and compared\n")
        if kept is not None:
            emit(f"the replaced state is kept: `dil state restore` with {kept} brings it back\n")
    return 0


def _members(found: StoredState) -> dict[str, object]:
    return {
        "head": found.head,
        "hash": found.head_hash,
        "rows": dict(found.rows),
        "unfinished": found.unfinished,
    }
