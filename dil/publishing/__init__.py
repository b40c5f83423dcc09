"""Turns staged files into a visible dataset."""

from dil.publishing.books import (
    CommitWithBooks,
    keep_books,
    keeps_registry,
    mark_labels,
    waits_for_events,
    window_of,
)
from dil.publishing.destination import destination_for
from dil.publishing.dumps import check_places, fail_equal_names, fail_taken_names, folds_names
from dil.publishing.late_files import is_other_dataset, late_files, late_rows_there
from dil.publishing.layout import (
    META,
    audit_dir,
    changelog_dir,
    dataset_dir,
    late_dir,
    output_dir,
    quarantine_dir,
    refused_dir,
    run_staging_dir,
)
from dil.publishing.lost_state import (
    ANEW,
    is_newest_state,
    newer_dataset,
    not_loaded,
    refuse_lost_state,
    refuse_older_dataset,
    refuse_older_state,
    refuse_other_place,
    set_back,
)
from dil.publishing.manifest import live_files, live_paths
from dil.publishing.metadata import write_metadata
from dil.publishing.moves import folder_of, shared_moves
from dil.publishing.own_folders import own_runs, split_runs
from dil.publishing.owner import claim, owning_jobs, refuse_other_owners
from dil.publishing.page_log import drop_logs, keep_logs
from dil.publishing.publisher import (
    Publisher,
    is_hidden,
    quarantined_files,
    sweep,
    untracked_files,
)
from dil.publishing.recovery import (
    AdoptableWork,
    ReusePolicy,
    SentResults,
    UnfinishedUnits,
    finished_units,
    resumable,
    staged_work,
    unfinished_units,
)
from dil.publishing.results import FinishedUnit, PublishableResults, PublishTarget, SharedFile
from dil.publishing.rewritten import left_behind, refuse_rewritten, rewritten_units
from dil.publishing.run_commit import build_commit, recorded_schema, unchanged_labels
from dil.publishing.shared_files import refuse_unlisted, refuse_window_replace
from dil.publishing.staged import (
    StagedPlan,
    StagedResult,
    read_plan,
    read_results,
    write_plan,
    write_result,
)

__all__ = [
    "ANEW",
    "META",
    "AdoptableWork",
    "CommitWithBooks",
    "FinishedUnit",
    "PublishTarget",
    "PublishableResults",
    "Publisher",
    "ReusePolicy",
    "SentResults",
    "SharedFile",
    "StagedPlan",
    "StagedResult",
    "UnfinishedUnits",
    "audit_dir",
    "build_commit",
    "changelog_dir",
    "check_places",
    "claim",
    "dataset_dir",
    "destination_for",
    "drop_logs",
    "fail_equal_names",
    "fail_taken_names",
    "finished_units",
    "folder_of",
    "folds_names",
    "is_hidden",
    "is_newest_state",
    "is_other_dataset",
    "keep_books",
    "keep_logs",
    "keeps_registry",
    "late_dir",
    "late_files",
    "late_rows_there",
    "left_behind",
    "live_files",
    "live_paths",
    "mark_labels",
    "newer_dataset",
    "not_loaded",
    "output_dir",
    "own_runs",
    "owning_jobs",
    "quarantine_dir",
    "quarantined_files",
    "read_plan",
    "read_results",
    "recorded_schema",
    "refuse_lost_state",
    "refuse_older_dataset",
    "refuse_older_state",
    "refuse_other_owners",
    "refuse_other_place",
    "refuse_rewritten",
    "refuse_unlisted",
    "refuse_window_replace",
    "refused_dir",
    "resumable",
    "rewritten_units",
    "run_staging_dir",
    "set_back",
    "shared_moves",
    "split_runs",
    "staged_work",
    "sweep",
    "unchanged_labels",
    "unfinished_units",
    "untracked_files",
    "waits_for_events",
    "window_of",
    "write_metadata",
    "write_plan",
    "write_result",
]
