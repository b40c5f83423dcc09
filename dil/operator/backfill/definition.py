"""The definition of a backfill: decided when it begins, kept in its folder, never changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from dil.errors import ConfigError
from dil.model.destination import TableFormat
from dil.model.grace import GraceSpec
from dil.model.job import CommitPolicy, Job, PublishingSpec, PublishMode
from dil.model.timelabels import LabelClosing
from dil.model.work_unit import Plan
from dil.publishing.documents import read_known
from dil.publishing.layout import backfills_dir, join
from dil.storage import filesystem_for

FORMAT = 1
_NAME = "backfill.json"


@dataclass(frozen=True, slots=True)
class BackfillDefinition:
    """A backfill of one job; times are epoch ms UTC.

    ``low`` and ``high`` bound the requested range; ``units`` are the requested units, all if empty.
    ``digest`` is the digest of the job's configuration; ``plan`` has the work units to read.
    ``head`` is the hash of the newest block of the job's chain when the backfill began, empty if
    the chain had no block.
    """

    format: int
    id: str
    job: str
    created: int
    low: int
    high: int
    units: tuple[str, ...]
    digest: str
    plan: Plan
    head: str = ""


def act_prefix(backfill_id: str) -> str:
    """Return the prefix of the ids of acts that publish a backfill."""
    return f"backfill-{backfill_id}"


def folder_of(spec: PublishingSpec, backfill_id: str) -> str:
    """Return the path of a backfill's folder, which readers of the dataset skip."""
    return join(backfills_dir(spec), backfill_id)


def backfill_job(
    job: Job, backfill_id: str, *, parallelism: int | None = None, pause_s: int | None = None
) -> Job:
    """Return the job that reads a backfill: the same source and rows, another folder and chain.

    The job keeps each successful work unit, even if others fail.

    Args:
        job: The job whose range is read again.
        backfill_id: The backfill.
        parallelism: How many work units are read at once; None means as many as the job reads.
        pause_s: Seconds between the starts of two work units; None means the job's own pacing.
    """
    spec, running = job.publishing, job.running
    labels = job.planning.timelabel
    return replace(
        job,
        name=f"{job.name}#backfill-{backfill_id}",
        planning=replace(
            job.planning,
            backfill=False,
            ignore_history=False,
            grace_ms=0,
            grace=GraceSpec(),
            timelabel=labels and replace(labels, closing=LabelClosing.NEVER),
            pacing_s=job.planning.pacing_s if pause_s is None else pause_s,
        ),
        publishing=replace(
            spec,
            final_dir=folder_of(spec, backfill_id),
            run_folder=False,
            mode=PublishMode.WINDOW_REPLACE,
            merge=None,
            table=replace(spec.table, format=TableFormat.FILES),
            catalog=None,
            shares_files=False,
        ),
        running=replace(
            running,
            commit_policy=CommitPolicy.SUCCESSFUL,
            threads=running.threads if parallelism is None else parallelism,
        ),
    )


def configuration_changed(definition: BackfillDefinition) -> ConfigError:
    """Return the error that refuses to resume or publish a backfill of another configuration."""
    return ConfigError.single(
        "ID",
        f"{definition.id} began with another configuration: the job file, an included file, or a "
        "-D flag changed since",
        "Set the change back, or begin a new backfill of the range with --new.",
    )


def save_definition(definition: BackfillDefinition, spec: PublishingSpec) -> None:
    """Write the definition of a new backfill."""
    path = f"{folder_of(spec, definition.id)}/{_NAME}"
    filesystem_for(spec.final_dir).put(path, msgspec.json.encode(definition))


def list_backfills(job: Job) -> Iterator[BackfillDefinition]:
    """Yield the backfills of a job, newest first; files that cannot be read are left out.

    Raises:
        StateError: a newer version wrote a definition.
    """
    filesystem = filesystem_for(job.publishing.final_dir)
    root = backfills_dir(job.publishing)
    for name in sorted(filesystem.folders(root), reverse=True):
        found = read_known(filesystem, f"{root}/{name}/{_NAME}", BackfillDefinition, FORMAT)
        if found is not None and found.job == job.name:
            plan = replace(found.plan, work_units=tuple(found.plan.work_units))
            yield replace(found, plan=plan)


def find_backfill(job: Job, backfill_id: str) -> BackfillDefinition:
    """Return the backfill of this id.

    Raises:
        ConfigError: the job has no backfill of this id.
    """
    for definition in list_backfills(job):
        if definition.id == backfill_id:
            return definition
    raise ConfigError.single(
        "ID",
        f'"{backfill_id}" is no backfill of {job.name}',
        f"`dil backfill list {shlex.quote(job.path)}` names them.",
    )
