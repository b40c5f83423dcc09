"""Opens a job's store for a command, and finds the instants and blocks that options name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dil.cli.job_command import JobCall
from dil.cli.stdout import results_only
from dil.errors import ConfigError
from dil.run.process import real_clock
from dil.state import open_store
from dil.state.blocks.canonical import instant_of
from dil.text.instants import InstantError, parse_instant
from dil.text.zones import find_zone, moment

if TYPE_CHECKING:
    from dil.model.job import Job
    from dil.spi.state_store import StateStore


@contextlib.contextmanager
def opened(call: JobCall) -> Iterator[tuple[Job, StateStore]]:
    """Load the job and open its store, for as long as the block lasts."""
    with results_only():
        job = call.job(secrets=False)
        store = open_store(job.state, job.name, clock=real_clock)
    with store:
        yield job, store


def instant(text: str, option: str, job: Job, now_ms: int | None = None) -> int:
    """Return the epoch ms of a text such as 2024-03-05, 2024-03-05T06:00:00Z or P1D.

    A text without a zone is in the job's zone. Durations count back from ``now_ms``, or from the
    clock's now if ``now_ms`` is None.

    Raises:
        ConfigError: the text has none of these forms.
    """
    try:
        zone = job.planning.zone
        now = real_clock() if now_ms is None else now_ms
        return parse_instant(text, now_ms=now, zone=zone, end=False).ms
    except InstantError as error:
        fix = "For example 2024-03-05 or 2024-03-05T06:00:00Z."
        raise ConfigError.single(option, f"{error}", fix) from error


def sequence(text: str, option: str, job: Job, store: StateStore) -> int:
    """Return the sequence of a block, given as a number or an instant.

    Raises:
        ConfigError: the text is no number and no instant, or the chain has no such block.
    """
    head = store.head()
    last = -1 if head is None else int(str(head["sequenceNumber"]))
    if text.isdecimal():
        found = int(text) if int(text) <= last else None
    else:
        found = store.sequence_as_of(instant(text, option, job))
    if found is None:
        seed = next(store.blocks_of_kind("Seed"), None)
        extent = "the chain is empty"
        if seed is not None:
            begun = block_moment(seed["systemTime"], job)
            extent = f"the first block is of {begun}, the newest block is {last}"
        raise ConfigError.single(
            option,
            f"{text}: the chain of {job.name} has no such block, {extent}",
            "`dil state log` lists the blocks with their numbers and times.",
        )
    return found


def block_moment(text: object, job: Job) -> str:
    """Return an instant of a block in the job's zone, without fractions of a second."""
    return moment(instant_of(str(text)) // 1000 * 1000, find_zone(job.planning.zone))
