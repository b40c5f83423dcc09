"""A job's store, opened for a command; and its blocks and instants in words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dil.cli.invocation import real_clock
from dil.cli.job_command import JobCall
from dil.cli.stdout import results_only
from dil.errors import ConfigError

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.model.json import JsonObject
    from dil.spi.state_store import StateStore


@contextlib.contextmanager
def opened(call: JobCall) -> Iterator[tuple[Job, StateStore]]:
    """Load the job and open its store, for as long as the block lasts."""
    with results_only():
        job = call.job(secrets=False)
        from dil.state import open_store

        store = open_store(job.state, job.name, clock=real_clock)
    with store:
        yield job, store


def instant(text: str, option: str, job: Job) -> int:
    """Return the epoch ms of a text such as 2024-03-05, 2024-03-05T06:00:00Z or P1D.

    Without a zone it is of the job's zone. Durations count back from the real clock.

    Raises:
        ConfigError: it is none of these.
    """
    from dil.text.instants import InstantError, parse_instant

    try:
        zone = job.planning.zone
        return parse_instant(text, now_ms=real_clock(), zone=zone, end=False).ms
    except InstantError as error:
        fix = "For example 2024-03-05 or 2024-03-05T06:00:00Z."
        raise ConfigError.single(option, f"{error}", fix) from error


def sequence(text: str, option: str, job: Job, store: StateStore) -> int:
    """Return the sequence of a block that is named by it or by an instant.

    Raises:
        ConfigError: the text is neither, or the chain has no such block.
    """
    head = store.head()
    last = -1 if head is None else int(str(head["sequenceNumber"]))
    if text.isdecimal():
        found = int(text) if int(text) <= last else None
    else:
        found = store.sequence_as_of(instant(text, option, job))
    if found is None:
        newest = "the chain is empty" if head is None else f"the newest block is {last}"
        raise ConfigError.single(
            option,
            f"{text}: the chain of {job.name} has no such block, {newest}",
            "`dil state log` lists the blocks with their numbers and times.",
        )
    return found


def block_line(block: JsonObject) -> str:
    """Return one block on one line: number, time, kind, what it says, hash."""
    from dil.observe.progress import counted

    event = member(block, "event")
    parts = [f"{block.get('sequenceNumber'):>6}  {block.get('systemTime')}  {event.get('kind')}"]
    new_data = member(event, "newData")
    interval = member(new_data, "offsetInterval")
    start, end = interval.get("start"), interval.get("end")
    if isinstance(start, int) and isinstance(end, int):
        parts.append(counted(end - start + 1, "row"))
    if event.get("newWatermark"):
        parts.append(f"watermark {event['newWatermark']}")
    parts.append(f"{block.get('hash', '')}")
    return "  ".join(parts)


def member(value: JsonObject, name: str) -> JsonObject:
    """Return an object member, an empty one where it is absent or null."""
    member = value.get(name)
    return member if isinstance(member, Mapping) else {}
