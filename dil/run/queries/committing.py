"""Adds a query's record to its commit, checked against the inputs before rows are visible."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dil.model.dataset import Commit
from dil.model.derived import Judged
from dil.publishing.run_commit import recorded_schema
from dil.reshaping.files import DatasetFiles
from dil.reshaping.row_hash import logical_hash
from dil.run import event_time
from dil.run.active_run import ActiveRun
from dil.run.queries.slices import PlannedQuery, require_sound
from dil.types.schema_text import parse_schema


def with_query(run: ActiveRun, planned: PlannedQuery, commit: Commit) -> Commit:
    """Return the commit with the record of the query that made its rows.

    If the query was not run, because the inputs have no new rows, no file is read.

    Raises:
        StateError: a rule of the chain would break (V30 to V40); nothing is visible.
    """
    spec, step = run.job.query, planned.step
    if spec is None or step is None:
        return commit
    if not planned.runs:
        commit = replace(commit, moves=(), removes=(), schema="", quarantine_removes=())
    hashed = _hash_of(run, commit) if spec.hashes_rows and commit.moves else None
    events, judged = run.job.events, None
    if planned.runs and events is not None:
        effective = event_time.kept(events, run.store).watermark.effective
        judged = Judged(effective, events.column, events.late_action)
    step = replace(step, logical_hash=hashed, judged=judged, last_event_ms=planned.last_event_ms)
    found = replace(commit, query=step)
    require_sound(run.job, spec, found, run.options.clock)
    return found


def _hash_of(run: ActiveRun, commit: Commit) -> str:
    """Return the hash of the staged rows; a task computes it if there are many."""
    work = _Hashing(
        DatasetFiles(run.job.publishing.final_dir, "", run.job.writing),
        commit.schema or recorded_schema(run.store),
    )
    paths = tuple(move.source for move in commit.moves)
    size = sum(move.target.bytes for move in commit.moves)
    if size < run.options.stage_bytes:
        return work(paths)
    return run.executors.for_steps(1).map(work, [paths])[0]


@dataclass(frozen=True, slots=True)
class _Hashing:
    """Hashes the rows of staged files in their order; pickles, to be used by a task."""

    dataset_files: DatasetFiles
    schema: str

    def __call__(self, paths: tuple[str, ...]) -> str:
        return logical_hash(self.dataset_files, paths, parse_schema(self.schema))
