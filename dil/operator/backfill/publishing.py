"""Publishes what a backfill holds as one operator's act, which ``dil state undo`` takes back too.

Files of its work units take the place of live ones, or are merged or added as the publish mode
says. The job's watermark stays; what had failed and is there now counts as read.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from dil import publishing
from dil.execution.stages import Executors, Stages
from dil.model.dataset import Lease, OperatorAct, UnitEntry
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.task import StagedFile, TaskReport
from dil.operator.acts.desk import Desk
from dil.operator.backfill import definition as definitions
from dil.operator.backfill.definition import Definition, act_prefix
from dil.operator.backfill.proposing import Publication, all_live, live_of
from dil.operator.backfill.standing import Standing
from dil.publishing import Finished, withdrawal
from dil.reshaping import Reshaping, reshape
from dil.run.options import RunOptions
from dil.run.runs import leased
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.storage import Filesystem, filesystem_for

VERB = "backfill"


@contextlib.contextmanager
def open_desk(
    job: Job,
    store: StateStore,
    definition: Definition,
    *,
    now_ms: int,
    clock: Callable[[], int],
    is_look: bool,
    verb: str = "",
) -> Iterator[Desk]:
    """Take the leases of a backfill and of its job, and finish what was begun under them.

    A look takes none and finishes nothing. The act's id begins with ``verb``, or names the
    backfill that it publishes.

    Raises:
        LeaseHeldError: the backfill is being read, or a run of the job is under way.
        CommitUnknownError: a publish was begun whose files are gone.
    """
    if is_look:
        yield Desk(job, store, now_ms, clock, None)
        return
    own = definitions.job_of(job, definition.id)
    with (
        open_store(own.state, own.name, clock=clock) as own_store,
        leased(own, own_store, "publish", clock) as own_lease,
        leased(job, store, verb or act_prefix(definition.id), clock) as lease,
    ):
        _finish(own, own_store, own_lease)
        _finish(job, store, lease)
        yield Desk(job, store, now_ms, clock, lease)


def perform(
    desk: Desk, publication: Publication, options: RunOptions, reason: str = ""
) -> JsonObject | None:
    """Publish under the desk's lease; return the last block of the act.

    Args:
        desk: The desk that the publication was proposed at.
        publication: What is to be done.
        options: The clock, and what runs the tasks of a large merge.
        reason: Why, kept in the chain.

    Raises:
        StateError: it is refused, or a live file is not what was published.
        ConversionError: rows do not fit each other, or the keys that they are merged by.
        CommitConflictError: another writer changed the same ground meanwhile.
        LeaseLostError: a lease was taken over.
    """
    if publication.refusal is not None:
        raise publication.refusal
    if desk.lease is None:
        raise AssertionError("an act needs the lease")
    job, filesystem, act_id = desk.job, desk.filesystem(), desk.lease.holder.run_id
    shaped_job = replace(job, publishing=replace(job.publishing, mode=publication.mode))
    target = _target(desk, act_id, publication.mode, options)
    executors = Executors(job, options.environ, options.cache, options.executor)
    with contextlib.closing(executors):
        stage = Stages(executors, options.stage_bytes)
        work = Reshaping(shaped_job, target, desk.now_ms, is_whole=False, stage=stage)
        shaped = reshape(work, finished(job, publication), filesystem)
    decided = publishing.decide(shaped_job, target, shaped, filesystem)
    if decided.removes:
        withdrawal.require_recorded(desk.store)
        withdrawal.withdraw(filesystem, job.publishing, act_id, decided.removes)
    commit = replace(
        decided,
        outcomes=(),
        quarantine_removes=(),
        act=OperatorAct(
            VERB,
            reason or f"publishes backfill {publication.standing.definition.id}",
            changed=_on_grid(publication.changed, desk.grid()),
        ),
    )
    block = publishing.publish(desk.store, desk.lease, commit, job.publishing, filesystem)
    changed = {entry.signature for entry in publication.changed}
    for run in desk.store.unfinished_runs():
        publishing.drop_logs(filesystem, run.staging_dir, changed)
    _sweep(job, publication.standing.definition.id, filesystem)
    return block


def finished(job: Job, publication: Publication) -> tuple[Finished, ...]:
    """Return the work units of a publication with their files, as a run would have staged them."""
    standing = publication.standing
    own = definitions.job_of(job, standing.definition.id).publishing
    filesystem = filesystem_for(own.final_dir)
    base = publishing.dataset_dir(own)
    files: dict[str, list[StagedFile]] = defaultdict(list)
    for file in publication.files:  # in the order of reading, by which a merge goes
        path = filesystem.path_of(file.uri)
        files[file.signature].append(
            StagedFile(
                path,
                file.rows,
                file.bytes,
                file.sha256,
                folder=path.rpartition("/")[0][len(base) :].strip("/"),
                timelabel=file.timelabel or "",
            )
        )
    aside = [
        _by_hash(filesystem, folder)
        for folder in (publishing.quarantine_dir(own), publishing.refused_dir(own))
    ]
    return tuple(
        Finished(
            unit,
            TaskReport(
                unit.signature,
                unit.low,
                unit.high,
                1,
                files=tuple(files[unit.signature]),
                schema=_schema(standing, files[unit.signature], filesystem),
                quarantined=aside[0].get(unit.hash, ()),
                refused=aside[1].get(unit.hash, ()),
            ),
        )
        for unit in publication.work_units
    )


def _finish(job: Job, store: StateStore, lease: Lease) -> None:
    filesystem = filesystem_for(job.publishing.final_dir)
    commit = publishing.finish_pending(store, lease, job.publishing, filesystem)
    if commit is not None and commit.act is not None:
        publishing.sweep(
            filesystem, publishing.run_staging_dir(job.publishing, job.name, commit.run_id)
        )


def _schema(standing: Standing, files: Sequence[StagedFile], filesystem: Filesystem) -> str:
    """Return the schema of a work unit's files; that of all where they all have the same."""
    if not files or not standing.has_schemas:
        return standing.schema if files else ""
    from dil.model.schema_text import merged_text, parse_schema, schema_text
    from dil.reshaping.files import row_file

    known = parse_schema(standing.schema)
    texts = [schema_text(row_file(filesystem, file.path, known).schema) for file in files]
    return merged_text(texts[0], texts[1:])


def _by_hash(filesystem: Filesystem, folder: str) -> Mapping[str, tuple[StagedFile, ...]]:
    """Return the files of rows that were put aside, by the work unit's hash in their names."""
    found: dict[str, tuple[StagedFile, ...]] = {}
    for file in filesystem.files(folder):
        unit_hash = file.path.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]
        staged = StagedFile(file.path, 0, file.size, "")
        found[unit_hash] = (*found.get(unit_hash, ()), staged)
    return found


def _target(desk: Desk, act_id: str, mode: PublishMode, options: RunOptions) -> publishing.Target:
    spec, filesystem = desk.job.publishing, desk.filesystem()
    now = options.clock()
    folders = frozenset(filesystem.folders(publishing.dataset_dir(spec)))
    return publishing.Target(
        run_id=act_id,
        output_dir=publishing.output_dir(spec, now=desk.now_ms, full=False, taken=folders),
        live=live_of(desk, mode),
        strays=publishing.strays(replace(spec, mode=mode), all_live(desk), filesystem),
        system_time=now,
        horizon=max(now, desk.now_ms),
        known_schema=publishing.recorded_schema(desk.store),
    )


def _on_grid(entries: Sequence[UnitEntry], grid: Mapping[int, int]) -> tuple[UnitEntry, ...]:
    return tuple(
        replace(entry, is_on_grid=grid.get(entry.low) == entry.expected_high) for entry in entries
    )


def _sweep(job: Job, backfill_id: str, filesystem: Filesystem) -> None:
    """Delete what this act staged, and what acts of the backfill that were cut off did."""
    root = publishing.run_staging_dir(job.publishing, job.name, "").rstrip("/")
    for name in filesystem.folders(root):
        if name.startswith(f"{act_prefix(backfill_id)}-"):
            publishing.sweep(filesystem, f"{root}/{name}")
    filesystem.delete_empty_folder(root)
