"""How far a backfill is, as its own chain, its folder and the job's chain tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any

from dil import publishing
from dil.model.dataset import LeaseHolder, PublishedFile
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.operator.backfill import definition as definitions
from dil.operator.backfill.definition import Definition, act_prefix
from dil.state import open_store
from dil.state.blocks.source_state import COMMITTED, FAILED
from dil.storage import filesystem_for

UNDO = "undo"


class Status(StrEnum):
    """How far a backfill is."""

    READING = "reading"
    UNFINISHED = "unfinished"
    COMPLETE = "complete"
    PUBLISHED = "published"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Standing:
    """A backfill as it is now.

    ``done`` and ``failed`` are signatures of work units of its plan, ``files`` what it holds, and
    ``schema`` fits them all; ``has_schemas`` tells that some may have another one. ``holder`` is
    who is reading it. ``act_id`` names the act that published it, None before; ``is_undone`` tells
    that this was taken back, ``is_last_act`` that no other operator's act came since.
    """

    definition: Definition
    done: frozenset[str]
    failed: frozenset[str]
    files: tuple[PublishedFile, ...]
    schema: str
    has_schemas: bool
    holder: LeaseHolder | None
    act_id: str | None = None
    is_undone: bool = False
    is_last_act: bool = False

    @property
    def status(self) -> Status:
        """Return the one word for it."""
        if self.act_id is not None:
            return Status.UNDONE if self.is_undone else Status.PUBLISHED
        if self.holder is not None:
            return Status.READING
        return Status.COMPLETE if self.is_whole else Status.UNFINISHED

    @property
    def is_whole(self) -> bool:
        """Tell whether all of its work units are read."""
        return len(self.done) == len(self.definition.plan.work_units)

    @property
    def is_open(self) -> bool:
        """Tell whether it was never published."""
        return self.act_id is None

    @property
    def rows(self) -> int:
        """Return the rows that it holds."""
        return sum(file.rows for file in self.files)


def standing_of(job: Job, definition: Definition, clock: Callable[[], int]) -> Standing:
    """Return how far a backfill of a job is; ``clock`` is the real one, epoch ms UTC.

    Raises:
        StateError: the state store cannot be read.
    """
    own = definitions.job_of(job, definition.id)
    planned = {unit.signature: unit.high for unit in definition.plan.work_units}
    with open_store(own.state, own.name, clock=clock) as store:
        holder = store.lease_holder()
        states = [state for state in store.unit_states() if state.signature in planned]
        schema = publishing.recorded_schema(store)
        schemas = sum(1 for _ in store.blocks_of_kind("SetDataSchema"))
    with open_store(job.state, job.name, clock=clock) as store:
        act = _act(store.blocks_of_kind("ResetState"), act_prefix(definition.id))
    filesystem = filesystem_for(own.publishing.final_dir)
    return Standing(
        definition,
        done=frozenset(
            each.signature
            for each in states
            if each.status == COMMITTED and (each.high or 0) >= planned[each.signature]
        ),
        failed=frozenset(each.signature for each in states if each.status == FAILED),
        files=publishing.live_files(filesystem, publishing.dataset_dir(own.publishing)),
        schema=schema,
        has_schemas=schemas > 1,
        holder=holder,
        act_id=act.id,
        is_undone=act.is_undone,
        is_last_act=act.is_last,
    )


@dataclass(frozen=True, slots=True)
class _Act:
    """The act that published a backfill, as the job's chain tells; ``id`` is None without one."""

    id: str | None = None
    is_undone: bool = False
    is_last: bool = False


def _act(resets: Iterable[JsonObject], prefix: str) -> _Act:
    """Return a backfill's act from the chain's resets, newest first.

    Undo takes back the newest act, which may be an undo. So of those that follow the backfill's
    act without another one between, each turns it over.
    """
    later: list[str] = []
    for block in resets:
        event: Any = block["event"]
        if "actId" not in event:
            continue
        if str(event["actId"]).startswith(f"{prefix}-"):
            undos = list(takewhile(lambda verb: verb == UNDO, reversed(later)))
            return _Act(str(event["actId"]), len(undos) % 2 == 1, len(undos) == len(later))
        later.append(str(event["act"]))
    return _Act()
