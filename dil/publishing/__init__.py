"""Staged files to a visible dataset."""

from dil.publishing.decision import Finished, Target, decide
from dil.publishing.layout import dataset_dir, output_dir, run_staging_dir
from dil.publishing.manifest import live_files, live_paths
from dil.publishing.owner import Owner, claim
from dil.publishing.publisher import finish_pending, publish, strays, sweep
from dil.publishing.recovery import Adoptable, finished, owed, staged_work
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
    "Target",
    "claim",
    "dataset_dir",
    "decide",
    "finish_pending",
    "finished",
    "live_files",
    "live_paths",
    "output_dir",
    "owed",
    "publish",
    "read_plan",
    "read_results",
    "run_staging_dir",
    "staged_work",
    "strays",
    "sweep",
    "write_plan",
    "write_result",
]
