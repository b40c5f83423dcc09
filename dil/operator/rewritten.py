"""Finds work units whose rows another program may have written to other files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dil import publishing
from dil.errors import StateError
from dil.model.dataset import PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishMode
from dil.operator.session import OperatorSession


def refusal_of_rewritten(
    session: OperatorSession, signatures: Collection[str]
) -> StateError | None:
    """Return why work units cannot be read again or replaced, None if they can.

    A manifest lists only published files. So the folder is searched for files of other writers, and
    for published files whose length has changed.
    """
    if not session.job.publishing.keeps_files:
        return None
    job, filesystem, live = session.job, session.filesystem(), session.live_files()
    spec = job.publishing
    searched = replace(spec, mode=PublishMode.WINDOW_REPLACE)
    seen = (*live, *publishing.untracked_files(searched, live, filesystem))
    altered: list[PublishedFile] = []
    if spec.table.format is TableFormat.FILES:  # files of a table are never overwritten
        sizes = {file.path: file.size for file in filesystem.files(publishing.dataset_dir(spec))}
        altered = [
            file
            for file in live
            if sizes.get(filesystem.path_of(file.uri), file.bytes) != file.bytes
        ]
    return publishing.rewritten_units(
        job.name, session.store, spec, filesystem, seen, signatures, altered
    )
