"""``dil state``: what is remembered of a job. Reads only."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

from dil.cli.groups import SuggestingGroup
from dil.cli.invocation import real_clock
from dil.cli.job_command import JobCall, job_command
from dil.cli.outcome import FAILED
from dil.cli.stdout import emit, emit_json, emit_json_array, results_only

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.json import JsonObject
    from dil.spi.state_store import StateStore, UnitState
    from dil.state.verification import ChainReport


@click.group(cls=SuggestingGroup)
def state() -> None:
    """Look at the state store of a job."""


@state.command()
@job_command()
def show(call: JobCall) -> int:
    """Show the newest block and every work unit with its watermarks."""
    with _opened(call) as (job, store):
        if call.as_json:
            _show_json(store)
        else:
            _show_text(job, store)
    return 0


@state.command()
@job_command()
def log(call: JobCall) -> int:
    """Show the chain of blocks, newest first."""
    with _opened(call) as (_, store):
        if call.as_json:
            emit_json_array(store.blocks())
            emit("\n")
            return 0
        for block in store.blocks():
            if not emit(f"{_block_line(block)}\n"):
                break
    return 0


@state.command()
@job_command()
def verify(call: JobCall) -> int:
    """Recheck the chain, the work units and the published files; exit code 1 when not sound."""
    with _opened(call) as (job, store):
        from dil.state.verification import verify_chain

        report = verify_chain(store, size_of=_size_on(job.publishing.final_dir))
    if call.as_json:
        emit_json(
            {
                "job": job.name,
                "sound": report.is_sound,
                "blocks": report.blocks,
                "files": report.files,
                "problems": list(report.problems),
            }
        )
    else:
        _verify_text(job, report)
    return 0 if report.is_sound else FAILED


@contextlib.contextmanager
def _opened(call: JobCall) -> Iterator[tuple[Job, StateStore]]:
    with results_only():
        job = call.job(secrets=False)
        from dil.state import open_store

        store = open_store(job.state, job.name, clock=real_clock)
    with store:
        yield job, store


def _show_json(store: StateStore) -> None:
    emit(f'{{\n  "head": {json.dumps(store.head())},\n  "work_units": ')
    emit_json_array((_unit_json(one) for one in store.unit_states()), indent="  ")
    emit("\n}\n")


def _unit_json(one: UnitState) -> dict[str, object]:
    return {
        "signature": one.signature,
        "low": one.low,
        "high": one.high,
        "status": one.status,
        "attempts": one.attempts,
    }


def _show_text(job: Job, store: StateStore) -> None:
    from dil.observe.logs import one_line
    from dil.text.zones import find_zone, moment

    zone = find_zone(job.planning.zone)
    head = store.head()
    emit(f"{job.name}  times in {job.planning.zone}\n")
    emit(f"  head  {_block_line(head)}\n" if head else "  head  none: no run has committed yet\n")
    line = "{:<10} {:>8}  {:<29} {:<29} {}\n"
    emit("\n" + line.format("status", "attempts", "from", "done up to", "work unit"))
    for one in store.unit_states():
        high = "-" if one.high is None else moment(one.high, zone)
        row = (one.status, one.attempts, moment(one.low, zone), high, one_line(one.signature))
        if not emit(line.format(*row)):
            break


def _size_on(place: str) -> Callable[[str], int | None]:
    """Return what finds a file's size by its URI; each folder is listed once."""
    from dil.storage import filesystem_for

    filesystem = filesystem_for(place)

    @functools.cache
    def sizes(folder: str) -> dict[str, int]:
        return {info.path: info.size for info in filesystem.files(folder)}

    def size_of(uri: str) -> int | None:
        path = filesystem.path_of(uri)
        return sizes(path.rpartition("/")[0]).get(path)

    return size_of


def _verify_text(job: Job, report: ChainReport) -> None:
    from dil.observe.logs import one_line

    counts = f"blocks {report.blocks:,}, live files {report.files:,}"
    if report.is_sound and not report.blocks:
        emit(f"{job.name}  nothing to verify: no run has recorded a block yet\n")
        return
    if report.is_sound:
        emit(f"{job.name}  SOUND  {counts}\n")
        return
    emit(f"{job.name}  NOT SOUND  problems {len(report.problems):,}, {counts}\n")
    for problem in report.problems:
        if not emit(f"  {one_line(problem)}\n"):
            return
    emit(
        "  V20 concerns a published file: restore it. All else concerns the state store: keep it "
        "as it is now,\n  and restore an earlier copy in its place.\n"
    )


def _block_line(block: JsonObject) -> str:
    """Return one block on one line: number, time, kind, what it says, hash."""
    from dil.observe.progress import counted

    event = _member(block, "event")
    parts = [f"{block.get('sequenceNumber'):>6}  {block.get('systemTime')}  {event.get('kind')}"]
    new_data = _member(event, "newData")
    interval = _member(new_data, "offsetInterval")
    start, end = interval.get("start"), interval.get("end")
    if isinstance(start, int) and isinstance(end, int):
        parts.append(counted(end - start + 1, "row"))
    if event.get("newWatermark"):
        parts.append(f"watermark {event['newWatermark']}")
    parts.append(f"{block.get('hash', '')}")
    return "  ".join(parts)


def _member(value: JsonObject, name: str) -> JsonObject:
    """Return an object member, an empty one where it is absent or null."""
    member = value.get(name)
    return member if isinstance(member, Mapping) else {}
