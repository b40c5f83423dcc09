"""From watermarks and history to the plan of one run."""

from dil.planning.bare_history import BareHistory
from dil.planning.overtaken import overtaken
from dil.planning.partitions import WATERMARK_KEY, shape
from dil.planning.plan_file import SavedPlan
from dil.planning.planner import plan, plan_on_demand

__all__ = [
    "WATERMARK_KEY",
    "BareHistory",
    "SavedPlan",
    "overtaken",
    "plan",
    "plan_on_demand",
    "shape",
]
