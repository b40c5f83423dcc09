"""What a run staged, brought into the form in which it is published: one schema, merged by key.

Everything here happens before the intent, below the run's staging folder, and is done from scratch
when it has to be done again (rule C26). Nothing here knows Spark: whoever calls decides where
a stage's tasks run.
"""

from dil.reshaping.reshape import reshape
from dil.reshaping.reshaping import Reshaping, Stage

__all__ = ["Reshaping", "Stage", "reshape"]
