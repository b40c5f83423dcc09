"""Writes the rest of published files when an act withdraws rows of some of their work units.

The rest is written next to the copies that the act keeps, and replaces the whole file in the act's
commit. If the act breaks off before its commit, the rest and the copies stay there, and no run
reads them.
"""

from __future__ import annotations

from collections.abc import Sequence

from dil import publishing
from dil.errors import StateError
from dil.model.dataset import Move, PublishedFile
from dil.operator.session import OperatorSession
from dil.publishing import withdrawal
from dil.publishing.shared_files import refuse_misfit
from dil.reshaping.shared_files import SharedFileWriter, rest_of


def whole_files(
    session: OperatorSession, files: Sequence[PublishedFile], *, is_final: bool = False
) -> tuple[PublishedFile, ...]:
    """Return live files with the rows of all their work units.

    Raises:
        StateError: a file is not live any more, or has rows without a work unit. Such rows may only
            be deleted for good.
    """
    live = {file.uri: file for file in session.live_files()}
    gone = [file.uri for file in files if file.uri not in live]
    if gone:
        raise StateError(
            f"{gone[0]} is not in the dataset any more",
            "Another program removed it since. Nothing was changed; try again.",
        )
    whole = tuple(live[file.uri] for file in files)
    if not is_final:
        for file in whole:
            refuse_misfit(file)
    return whole


def staged_remainders(
    session: OperatorSession,
    act_id: str,
    leaving: Sequence[PublishedFile],
    whole: Sequence[PublishedFile],
) -> tuple[Move, ...]:
    """Write the rest of files, and return the moves that publish it.

    Args:
        session: The session of the act.
        act_id: The act.
        leaving: The files, each with only the rows that are withdrawn from it.
        whole: The same files with all their rows.

    Raises:
        ConversionError: a file does not hold the published rows.
        WriteError: the file system refused.
    """
    parts = [
        (narrowed, file)
        for narrowed, file in zip(leaving, whole, strict=True)
        if narrowed.signatures != file.signatures
    ]
    if not parts:
        return ()
    # From here on Arrow is needed; most acts return before that.
    job, filesystem = session.job, session.filesystem()
    folder = withdrawal.act_folder(job.publishing, act_id)
    write = SharedFileWriter.of(job, folder, publishing.recorded_schema(session.store))
    found = (
        rest_of(file, filesystem.path_of(file.uri), narrowed.signatures, f"rest-{number}")
        for number, (narrowed, file) in enumerate(parts)
    )
    rests = [write(plan) for plan in found if plan is not None]
    destination = publishing.destination_for(job.publishing, filesystem)
    return tuple(publishing.shared_moves(job, act_id, rests, destination.uri))
