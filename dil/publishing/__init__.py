"""Staged files to a visible dataset."""

from dil.publishing.books import (
    LabelMark,
    keep_books,
    keeps_registry,
    waits_for_events,
    window_of,
)
from dil.publishing.bounds import own_runs, split_runs
from dil.publishing.decision import (
    Finished,
    Shaped,
    SharedFile,
    Target,
    decide,
    folder_of,
    shared_moves,
    unchanged_labels,
)
from dil.publishing.destination import destination_for
from dil.publishing.dumps import check_places, folds_names, without_clashes, without_seizures
from dil.publishing.landed import (
    is_newest_state,
    newer_dataset,
    refuse_lost_state,
    refuse_older_state,
    refuse_other_place,
)
from dil.publishing.late_files import is_other_dataset, late_files, late_rows_there
from dil.publishing.layout import (
    META,
    audit_dir,
    dataset_dir,
    late_dir,
    output_dir,
    quarantine_dir,
    refused_dir,
    run_staging_dir,
)
from dil.publishing.manifest import live_files, live_paths
from dil.publishing.marks import mark_labels
from dil.publishing.metadata import write_metadata
from dil.publishing.owner import claim, owning_jobs, refuse_other_owners
from dil.publishing.page_log import drop_logs, keep_logs
from dil.publishing.publisher import (
    append_block,
    finish_pending,
    is_hidden,
    lost_moves,
    make_visible,
    publish,
    quarantined_files,
    refuse_other_destination,
    refuse_unpublishable,
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
from dil.publishing.rewritten import left_behind, refuse_rewritten, rewritten_units
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
    "META",
    "Adoptable",
    "Finished",
    "LabelMark",
    "ReusePolicy",
    "SentResults",
    "Shaped",
    "SharedFile",
    "StagedPlan",
    "StagedResult",
    "Target",
    "UnfinishedUnits",
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
    "lost_moves",
    "make_visible",
    "mark_labels",
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
    "refuse_lost_state",
    "refuse_older_state",
    "refuse_other_destination",
    "refuse_other_owners",
    "refuse_other_place",
    "refuse_rewritten",
    "refuse_unlisted",
    "refuse_unpublishable",
    "refuse_window_replace",
    "refused_dir",
    "resumable",
    "rewritten_units",
    "run_staging_dir",
    "shared_moves",
    "split_runs",
    "staged_work",
    "sweep",
    "unchanged_labels",
    "unfinished_units",
    "untracked_files",
    "waits_for_events",
    "window_of",
    "without_clashes",
    "without_seizures",
    "write_metadata",
    "write_plan",
    "write_result",
]
