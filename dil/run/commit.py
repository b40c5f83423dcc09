"""Commit: record the visible rows in state, then delete staged files that no later run needs."""

from __future__ import annotations

import logging
from collections.abc import Collection

from dil.errors import DilError, LeaseLostError
from dil.model.dataset import is_compaction
from dil.publishing.closed_labels import settle_registry
from dil.publishing.metadata import write_metadata
from dil.publishing.page_log import keep_logs
from dil.publishing.publisher import delete_staging
from dil.run.active_run import ActiveRun
from dil.run.plan import PlannedRun
from dil.run.publish import PublishedResults, RunOutcome

log = logging.getLogger(__name__)


def commit(run: ActiveRun, planned: PlannedRun, outcome: RunOutcome) -> None:
    """Record in state which results a run published, and how the run ended.

    The staged files of a failed run are kept, so that the next run can adopt them. If a run
    published only some of its work units, the pages of the unfinished ones are kept.

    Raises:
        LeaseLostError: another run took over; it finishes this run's publish.
        DilError: the block could not be appended; the next run appends it.
    """
    if outcome.published is not None:
        append(run, outcome.published)
    lost = record_end(run, outcome.status.value, outcome.rows, len(outcome.files))
    if lost is not None and outcome.published is None:
        raise lost  # tasks failed because the lease was lost, whatever their errors say
    if outcome.published is not None:
        wanted = {unit.signature for unit in planned.plan.work_units}
        unfinished = wanted - {report.signature for report in outcome.good}
        try:
            sweep(run, unfinished)
        except DilError as error:  # a failed sweep does not undo the publish
            log.warning("staging could not be swept: %s", error.message)


def append(run: ActiveRun, published: PublishedResults) -> None:
    """Append the block and the new watermarks of visible results in one transaction."""
    spec, results = run.job.publishing, published.results
    run.publisher.append_block(run.lease, published.commit)
    if published.commit.closed_labels is not None:
        settle_registry(run.publisher, run.lease)
    has_rows = any(not move.target.is_dump for move in published.commit.moves)
    if has_rows and spec.keeps_files:
        write_metadata(
            run.filesystem,
            published.output_dir,
            run.job,
            results.run_id,
            is_full=results.full_extract,
        )


def record_end(run: ActiveRun, status: str, rows: int = 0, files: int = 0) -> LeaseLostError | None:
    """Record how a run ended; the run does not fail if the state store refuses.

    Return the error if another run has taken the lease over, else None.
    """
    try:
        run.store.end_run(run.lease, run.run_id, status, rows=rows, files=files)
    except DilError as error:
        log.warning("the end of the run could not be recorded: %s", error.message)
        return error if isinstance(error, LeaseLostError) else None
    return None


def sweep(run: ActiveRun, unfinished: Collection[str] = ()) -> None:
    """Delete the staged files of this run and of earlier runs, if no later run can use them.

    Pages of work units are kept if ``unfinished`` has their signatures.
    """
    _sweep_again(run)
    for earlier in run.unswept_runs():
        if unfinished and keep_logs(run.filesystem, earlier.staging_dir, unfinished):
            continue
        if delete_staging(run.filesystem, earlier.staging_dir):
            run.store.mark_swept(run.lease, earlier.run_id)
    run.filesystem.delete_empty_folder(run.staging.rpartition("/")[0])


def _sweep_again(run: ActiveRun) -> None:
    """Delete folders of swept runs: a suspended driver may have staged again.

    Staged files of a killed compaction are deleted, too: its intent, if any, is finished by now.
    """
    root = run.staging.rpartition("/")[0]
    left = {name for name in run.filesystem.folders(root) if not name.startswith("_")}
    left -= {each.run_id for each in run.store.unfinished_runs()}
    for name in [each for each in left if is_compaction(each)]:
        delete_staging(run.filesystem, f"{root}/{name}")
        left.discard(name)
    if left:
        for earlier in run.store.runs():
            if earlier.run_id in left and earlier.staging_dir == f"{root}/{earlier.run_id}":
                delete_staging(run.filesystem, earlier.staging_dir)
