"""``dil state``: what is remembered of a job. Reads only."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from dil.cli.invocation import real_clock
from dil.cli.job_command import JobCall, job_command
from dil.cli.stdout import emit, emit_json_array, results_only

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.json import JsonObject
    from dil.spi.state_store import StateStore, UnitState


@click.group()
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


@contextlib.contextmanager
def _opened(call: JobCall) -> Iterator[tuple[Job, StateStore]]:
    with results_only():
        job = call.load_and_warn()
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
    from dil.observe.plan_view import instant
    from dil.text.zones import find_zone

    zone = find_zone(job.planning.zone)
    head = store.head()
    emit(f"{job.name}  times in {job.planning.zone}\n")
    emit(f"  head  {_block_line(head)}\n" if head else "  head  none: no run has committed yet\n")
    line = "{:<10} {:>8}  {:<29} {:<29} {}\n"
    emit("\n" + line.format("status", "attempts", "from", "done up to", "work unit"))
    for one in store.unit_states():
        high = "-" if one.high is None else instant(one.high, zone)
        row = (one.status, one.attempts, instant(one.low, zone), high, one_line(one.signature))
        if not emit(line.format(*row)):
            break


def _block_line(block: JsonObject) -> str:
    """Return one block on one line: number, time, kind, what it says, hash."""
    event = _member(block, "event")
    parts = [f"{block.get('sequenceNumber'):>6}  {block.get('systemTime')}  {event.get('kind')}"]
    new_data = _member(event, "newData")
    interval = _member(new_data, "offsetInterval")
    start, end = interval.get("start"), interval.get("end")
    if isinstance(start, int) and isinstance(end, int):
        parts.append(f"{end - start + 1:,} rows")
    if event.get("newWatermark"):
        parts.append(f"watermark {event['newWatermark']}")
    parts.append(f"{block.get('hash', '')}")
    return "  ".join(parts)


def _member(value: JsonObject, name: str) -> JsonObject:
    """Return an object member, an empty one where it is absent or null."""
    member = value.get(name)
    return member if isinstance(member, Mapping) else {}
