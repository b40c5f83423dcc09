"""Computes the plan of one run from watermarks and history."""

from dil.planning.partitions import WATERMARK_KEY, is_shape, shape, shape_among_others
from dil.planning.plan_file import SavedPlan
from dil.planning.planner import plan, plan_everything
from dil.planning.recorded_partitions import grid_until, remainders_past_backfill
from dil.planning.unit_history import BareHistory

__all__ = [
    "WATERMARK_KEY",
    "BareHistory",
    "SavedPlan",
    "grid_until",
    "is_shape",
    "plan",
    "plan_everything",
    "remainders_past_backfill",
    "shape",
    "shape_among_others",
]
