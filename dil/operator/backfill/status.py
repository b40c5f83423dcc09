"""The progress of a backfill, from its own chain, its folder and the job's chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any

from dil.model.dataset import LeaseHolder, PublishedFile
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.operator.backfill.definition import BackfillDefinition, act_prefix, backfill_job
from dil.publishing.layout import dataset_dir
from dil.publishing.manifest import live_files
from dil.publishing.run_commit import recorded_schema
from dil.state import open_store
from dil.state.blocks.source_state import COMMITTED, FAILED
from dil.storage import filesystem_for

UNDO = "undo"


class Phase(StrEnum):
    """The phase of a backfill."""

    READING = "reading"
    UNFINISHED = "unfinished"
    COMPLETE = "complete"
    PUBLISHED = "published"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class BackfillStatus:
    """A backfill as it is now.

    ``done`` and ``failed`` are signatures of work units in the plan; ``lost`` are the signatures of
    read work units that lost a file. ``files`` are the backfill's files, including lost ones, and
    ``schema`` fits all of them. If ``has_schemas`` is true, some files may have an earlier schema.
    ``holder`` is the process that reads the backfill now. ``act_id`` is the act that published the
    backfill, None before; ``is_undone`` says whether that act was undone, ``is_last_act`` whether
    no other act followed.
    """

    definition: BackfillDefinition
    done: frozenset[str]
    failed: frozenset[str]
    files: tuple[PublishedFile, ...]
    schema: str
    has_schemas: bool
    holder: LeaseHolder | None
    act_id: str | None = None
    is_undone: bool = False
    is_last_act: bool = False
    lost: frozenset[str] = frozenset()

    @property
    def phase(self) -> Phase:
        """Return the phase of the backfill."""
        if self.act_id is not None:
            return Phase.UNDONE if self.is_undone else Phase.PUBLISHED
        if self.holder is not None:
            return Phase.READING
        is_complete = len(self.done) == len(self.definition.plan.work_units)
        return Phase.COMPLETE if is_complete else Phase.UNFINISHED

    @property
    def is_open(self) -> bool:
        """Return whether the backfill was never published."""
        return self.act_id is None

    @property
    def rows(self) -> int:
        """Return how many rows the backfill holds."""
        return sum(file.rows for file in self.files)


def read_status(
    job: Job, definition: BackfillDefinition, clock: Callable[[], int]
) -> BackfillStatus:
    """Return the status of a backfill; ``clock`` is the real clock, epoch ms UTC.

    Raises:
        StateError: the state store cannot be read.
    """
    own = backfill_job(job, definition.id)
    planned = {unit.signature: unit.high for unit in definition.plan.work_units}
    with open_store(own.state, own.name, clock=clock) as store:
        holder = store.lease_holder()
        states = [state for state in store.unit_states() if state.signature in planned]
        schema = recorded_schema(store)
        schemas = sum(1 for _ in store.blocks_of_kind("SetDataSchema"))
    with open_store(job.state, job.name, clock=clock) as store:
        act = _publishing_act(store.blocks_of_kind("ResetState"), act_prefix(definition.id))
        is_begun = (store.begun_publish() or "").startswith(f"{act_prefix(definition.id)}-")
    filesystem = filesystem_for(own.publishing.final_dir)
    folder = dataset_dir(own.publishing)
    files = live_files(filesystem, folder)
    lost: frozenset[str] = frozenset()
    if act.id is None and not is_begun:  # publishing moves the files away
        # Only file names are compared, because a dataset may have been moved.
        here = {file.path.rpartition("/")[2] for file in filesystem.files(folder)}
        gone = (file for file in files if file.uri.rpartition("/")[2] not in here)
        lost = frozenset(signature for file in gone for signature in file.signatures)
    return BackfillStatus(
        definition,
        done=frozenset(
            each.signature
            for each in states
            if each.status == COMMITTED
            and (each.high or 0) >= planned[each.signature]
            and each.signature not in lost
        ),
        failed=frozenset(each.signature for each in states if each.status == FAILED),
        files=files,
        schema=schema,
        has_schemas=schemas > 1,
        holder=holder,
        act_id=act.id,
        is_undone=act.is_undone,
        is_last_act=act.is_last,
        lost=lost,
    )


@dataclass(frozen=True, slots=True)
class _Act:
    """The act that published a backfill; ``id`` is None if it was not published."""

    id: str | None = None
    is_undone: bool = False
    is_last: bool = False


def _publishing_act(resets: Iterable[JsonObject], prefix: str) -> _Act:
    """Return the act that published a backfill, from the chain's resets, newest first.

    Undo takes back the newest act, which may be an undo itself. So each undo that directly follows
    the backfill's act reverses it once more.
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
