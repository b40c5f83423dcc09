"""Reconstructs the intent of a publish if its record cannot be read.

The record is damaged, or a newer release wrote it. The dataset's own records say whether readers
see the rows; file names say which files the publish made; the staging folder of its run says which
work units the publish had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dil.errors import CommitUnknownError
from dil.model.dataset import (
    Commit,
    Intent,
    Move,
    PublishedFile,
    RunWork,
    WorkUnitOutcome,
    is_compaction,
    source_name,
)
from dil.model.job import Job
from dil.publishing.destination import destination_for
from dil.publishing.layout import dataset_dir, run_staging_dir, unit_hash_in
from dil.publishing.publisher import is_hidden
from dil.publishing.recovery import unfinished_units
from dil.publishing.run_commit import recorded_schema
from dil.publishing.staged import StagedPlan, read_plan, read_results
from dil.run import event_time
from dil.run.forgetting import forgotten_by_run
from dil.spi.state_store import LAST_PUBLISH, StateStore
from dil.state.chain.recorded_files import file_of, live_parts
from dil.storage import filesystem_for
from dil.types.schema_text import merged_text


def rebuilt_intent(job: Job, store: StateStore, run_id: str, now_ms: int) -> Intent:
    """Reconstruct the intent of a publish that a run began; ``now_ms`` is the real clock's.

    If readers see rows of the publish, the commit of the intent has the files and work units of
    these rows, and removes the replaced files. Otherwise the commit has the files in the dataset's
    folder that have names of the run.

    Raises:
        CommitUnknownError: rows are visible, and the next run would append some of them again.
    """
    filesystem, spec = filesystem_for(job.publishing.final_dir), job.publishing
    destination = destination_for(spec, filesystem)
    known = store.checkpoint(LAST_PUBLISH)
    sequence = known.get("sequence")
    work = RunWork(watermarks=job.state.enabled and job.query is None)
    intent = Intent(
        Commit(run_id, job.digest, source_name(job.name), (), (), "", now_ms, now_ms, work),
        0,
        dataset_dir(spec),
        sequence if isinstance(sequence, int) else destination.next_sequence(),
        str(known.get("destination") or ""),
    )
    staging = run_staging_dir(spec, job.name, run_id)
    live = destination.live()
    if destination.has_landed(intent):
        plan = read_plan(filesystem, staging)
        results = read_results(filesystem, staging, published=True)
        good = [each for each in results if each.report.failure is None]
        read = {each.work_unit.signature for each in good}
        commit = _visible_commit(job, store, intent.commit, live, staging, plan, read)
        schemas = (each.report.schema for each in good)
        schema = merged_text(recorded_schema(store), schemas)
        return replace(intent, commit=replace(commit, schema=schema))
    if not spec.keeps_files:
        return intent
    listed = {file.uri for file in live}
    placed = tuple(
        PublishedFile(uri, "", 0, info.size, "", run_id)
        for info in filesystem.files(intent.dataset_dir)
        if f"-{run_id}-" in info.path.rpartition("/")[2]
        and (uri := filesystem.uri(info.path)) not in listed
        and not is_hidden(info.path[len(intent.dataset_dir) :])
    )
    return replace(intent, commit=_with_moves(intent.commit, placed, staging))


def _visible_commit(
    job: Job,
    store: StateStore,
    bare: Commit,
    live: tuple[PublishedFile, ...],
    staging: str,
    plan: StagedPlan,
    read: Collection[str],
) -> Commit:
    """Return the commit whose rows readers see.

    The remainder of a shared file has the name of the run that wrote it, although that run did not
    read its rows: only the results say which work units were read.

    Args:
        job: The job.
        store: The job's state.
        bare: The commit without files and work units.
        live: The dataset's files.
        staging: The run's staging folder.
        plan: The plan of the run.
        read: The signatures of the work units that have a result in staging.

    Raises:
        CommitUnknownError: the state of work units is unknown, and rows would double.
    """
    run_id = bare.run_id
    by_hash = {unit.hash: unit for unit in plan.work_units}
    own = []
    for file in live:
        if file.run_id == run_id or (not file.run_id and f"-{run_id}-" in file.uri):
            unit = by_hash.get(unit_hash_in(file.uri))
            if file.signatures or unit is None:
                own.append(file)
            else:  # a manifest may lack the work unit
                own.append(
                    PublishedFile(
                        file.uri, unit.signature, file.rows, file.bytes, file.sha256, run_id,
                        unit.timelabel,
                    )
                )  # fmt: skip
    published = {signature for file in own for signature in file.signatures} - {""}
    known = {unit.signature: unit for unit in plan.work_units}
    done = known.keys() & read
    is_run = any(run.run_id == run_id for run in store.runs())
    is_act = not is_run and not is_compaction(run_id)
    is_unclear = (
        bool(published - done)
        or not all(file.signatures for file in own)
        or job.query is not None  # only the record has the places in the inputs
    )
    if is_act or (is_run and is_unclear):
        raise CommitUnknownError(
            f"readers see the rows of {run_id}, but their work units are unknown: its record "
            "cannot be read, and staging does not name them",
            "Nothing was changed. Finish it with the dil version that began it, or restore the"
            " state store from a copy.",
        )
    why = "the record of its publish could not be read"
    unfinished = unfinished_units(plan, done, why)
    read_units = (known[each] for each in sorted(done))
    failed = (each.work_unit for each in unfinished.failed)
    outcomes = (
        *(WorkUnitOutcome.of(unit, high=unit.high, attempts=1) for unit in read_units),
        *(WorkUnitOutcome.of(unit, high=None, attempts=1, error=why) for unit in failed),
    )
    skipped = (WorkUnitOutcome.of(unit, high=None, attempts=0) for unit in unfinished.missed)
    here = {file.uri for file in live}
    gone = tuple(file_of(part) for uri, part in live_parts(store).items() if uri not in here)
    commit = _with_moves(bare, own, staging)
    forgotten = forgotten_by_run(job, store, outcomes)
    work = replace(
        commit.run,
        outcomes=outcomes,
        skipped=tuple(skipped),
        left_low=unfinished.low,
        forgotten=tuple(each.signature for each in forgotten),
    )
    checkpoints = event_time.checkpoints_with_forgotten(store, forgotten)
    return replace(commit, removes=gone, run=work, checkpoints=checkpoints)


def _with_moves(commit: Commit, files: Iterable[PublishedFile], staging: str) -> Commit:
    """Return a commit with the moves of its files, whose staged paths are unknown."""
    moves = tuple(Move(f"{staging}/moved/{number}", file) for number, file in enumerate(files))
    return replace(commit, moves=moves)
