"""Marks timelabels in the registry of a database as closed or as reopened."""

from __future__ import annotations

from collections.abc import Sequence

from dil.model.job import PublishingSpec
from dil.publishing.books import LabelMark
from dil.storage import Filesystem


def mark_labels(spec: PublishingSpec, filesystem: Filesystem, marks: Sequence[LabelMark]) -> None:
    """Write into the registry which labels are closed or reopened, in this order; repeatable.

    Raises:
        WriteError: the database refused to write.
    """
    from dil.publishing.timeseries.access import open_access  # Few runs close labels of a database.

    open_access(spec, filesystem).mark(marks)
