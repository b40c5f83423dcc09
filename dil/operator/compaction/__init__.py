"""Compaction of a dataset's small files."""

from dil.operator.compaction.compacting import CompactionResult, compact
from dil.operator.compaction.planning import CompactionPlan, CompactionRequest

__all__ = ["CompactionPlan", "CompactionRequest", "CompactionResult", "compact"]
