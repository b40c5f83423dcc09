"""Files of an act that runs have changed since, so that taking the act back would harm rows.

The rows of the index tell it of work units that an act changed. Of those that it left as they were,
as publishing a backfill does, only the files can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dil.errors import StateError
from dil.model.dataset import PublishedFile
from dil.model.job import Job, PublishMode
from dil.state.acts.last_act import LastAct


def refuse_overtaken(
    job: Job, last: LastAct, live: Iterable[PublishedFile], returning: Collection[str]
) -> None:
    """Refuse to take back an act whose files do not stand for its rows any more.

    Args:
        job: The job.
        last: The act.
        live: The files that are live now.
        returning: The signatures of the files that would come back.

    Raises:
        StateError: rows would be lost or doubled.
    """
    mode = job.publishing.mode
    if mode is PublishMode.MERGE and last.has_files_since:
        raise StateError(
            f"{last.verb} {last.act_id} cannot be taken back: runs have merged rows since, with "
            "those that it published or instead of them",
            "Nothing was changed. Read the range again with a new backfill.",
        )
    if job.publishing.warehouse is not None and mode is PublishMode.APPEND:
        return
    here = list(live)
    # Under any mode: runs may have replaced files before the mode was changed.
    gone = last.added.difference(file.uri for file in here)
    newer = {
        file.signature
        for file in here
        if mode in (PublishMode.WINDOW_REPLACE, PublishMode.REPLACE)
        and file.uri not in last.added
        and file.signature in returning
        and file.signature not in last.signatures
    }
    if gone or newer:
        example = min(newer or gone)
        raise StateError(
            f"{last.verb} {last.act_id} cannot be taken back: runs have published "
            f"{len(newer) or len(gone)} of its work units or files anew since ({example})",
            "Nothing was changed: the newer rows stand.",
        )
