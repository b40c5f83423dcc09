"""Brings a run's staged files into the form that is published: one schema, merged by key.

Everything here happens before the intent, below the run's staging folder, and a repetition begins
from scratch (rule C26). This package does not use Spark: its callers decide where a stage's tasks
run.
"""

from dil.reshaping.reshape import reshape
from dil.reshaping.reshaping import Reshaping, Stage

__all__ = ["Reshaping", "Stage", "reshape"]
