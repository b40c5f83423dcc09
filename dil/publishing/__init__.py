"""Staged files to a visible dataset."""

from dil.publishing.bounds import own_runs, split_runs
from dil.publishing.compacted import refuse_window_replace
from dil.publishing.decision import Finished, Shaped, Target, decide, unchanged_labels
from dil.publishing.destination import (
    Destination,
    OwnedDestination,
    VersionedDestination,
    destination_for,
)
from dil.publishing.dumps import check_places, folds_names, without_clashes, without_seizures
from dil.publishing.landed import newer_dataset, refuse_older_state, refuse_other_place
from dil.publishing.layout import (
    audit_dir,
    dataset_dir,
    output_dir,
    quarantine_dir,
    refused_dir,
    run_staging_dir,
)
from dil.publishing.manifest import live_files, live_paths
from dil.publishing.metadata import write_metadata
from dil.publishing.owner import Owner, claim, owning_jobs
from dil.publishing.page_log import drop_logs, keep_logs
from dil.publishing.publisher import (
    append_block,
    finish_pending,
    lost_moves,
    make_visible,
    publish,
    quarantined_files,
    sweep,
    untracked_files,
)
from dil.publishing.recorded import recorded_schema
from dil.publishing.recovery import (
    Adoptable,
    ReusePolicy,
    SentResults,
    UnfinishedUnits,
    finished,
    resumable,
    staged_work,
    unfinished_units,
)
from dil.publishing.staged import (
    StagedPlan,
    StagedResult,
    read_plan,
    read_results,
    write_plan,
    write_result,
)

__all__ = [
    "Adoptable",
    "Destination",
    "Finished",
    "OwnedDestination",
    "Owner",
    "ReusePolicy",
    "SentResults",
    "Shaped",
    "StagedPlan",
    "StagedResult",
    "Target",
    "UnfinishedUnits",
    "VersionedDestination",
    "append_block",
    "audit_dir",
    "check_places",
    "claim",
    "dataset_dir",
    "decide",
    "destination_for",
    "drop_logs",
    "finish_pending",
    "finished",
    "folds_names",
    "keep_logs",
    "live_files",
    "live_paths",
    "lost_moves",
    "make_visible",
    "newer_dataset",
    "output_dir",
    "own_runs",
    "owning_jobs",
    "publish",
    "quarantine_dir",
    "quarantined_files",
    "read_plan",
    "read_results",
    "recorded_schema",
    "refuse_older_state",
    "refuse_other_place",
    "refuse_window_replace",
    "refused_dir",
    "resumable",
    "run_staging_dir",
    "split_runs",
    "staged_work",
    "sweep",
    "unchanged_labels",
    "unfinished_units",
    "untracked_files",
    "without_clashes",
    "without_seizures",
    "write_metadata",
    "write_plan",
    "write_result",
]
