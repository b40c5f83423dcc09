"""Finds work units whose rows another program may have written to other files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
    searched = replace(job.publishing, mode=PublishMode.WINDOW_REPLACE)
    seen = (*live, *publishing.untracked_files(searched, live, filesystem))
    return publishing.rewritten_units(
        job.name,
        session.store,
        job.publishing,
        filesystem,
        seen,
        signatures,
        _altered(session, live),
    )


def _altered(session: OperatorSession, live: Iterable[PublishedFile]) -> Sequence[PublishedFile]:
    """Return the published files whose length has changed since."""
    spec, filesystem = session.job.publishing, session.filesystem()
    if spec.table.format is not TableFormat.FILES:
        return ()  # files of a table are never overwritten
    sizes = {file.path: file.size for file in filesystem.files(publishing.dataset_dir(spec))}
    return [
        file for file in live if sizes.get(filesystem.path_of(file.uri), file.bytes) != file.bytes
    ]
