"""Staged files to a visible dataset."""

from dil.publishing.decision import Finished, Target, decide
from dil.publishing.dumps import check_places, without_clashes, without_seizures
from dil.publishing.layout import (
    audit_dir,
    dataset_dir,
    output_dir,
    quarantine_dir,
    refused_dir,
    run_staging_dir,
)
from dil.publishing.manifest import live_files, live_paths
from dil.publishing.owner import Owner, claim
from dil.publishing.page_log import drop_logs, keep_logs
from dil.publishing.publisher import (
    finish_pending,
    publish,
    quarantined_files,
    strays,
    sweep,
)
from dil.publishing.recorded import recorded_schema
from dil.publishing.recovery import Adoptable, StandIn, finished, owed, resumable, staged_work
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
    "Finished",
    "Owner",
    "StagedPlan",
    "StagedResult",
    "StandIn",
    "Target",
    "audit_dir",
    "check_places",
    "claim",
    "dataset_dir",
    "decide",
    "drop_logs",
    "finish_pending",
    "finished",
    "keep_logs",
    "live_files",
    "live_paths",
    "output_dir",
    "owed",
    "publish",
    "quarantine_dir",
    "quarantined_files",
    "read_plan",
    "read_results",
    "recorded_schema",
    "refused_dir",
    "resumable",
    "run_staging_dir",
    "staged_work",
    "strays",
    "sweep",
    "without_clashes",
    "without_seizures",
    "write_plan",
    "write_result",
]
