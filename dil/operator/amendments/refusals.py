"""Amendments that would lose or double rows, and are refused.

The work-unit index shows which work units changed since an act. Files show the rest: which rows
`dil compact` wrote among those of other work units, and which files runs have replaced since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dil.errors import StateError
from dil.model.dataset import PublishedFile
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import unit_hash
from dil.operator.amendments.files import FileDecision
from dil.operator.session import OperatorSession
from dil.publishing.compacted import VERB as COMPACT
from dil.publishing.compacted import is_of_many
from dil.publishing.layout import unit_hash_in
from dil.state.amendments.last_act import LastAct


def refuse_compacted_units(
    session: OperatorSession, signatures: Collection[str], decision: FileDecision
) -> None:
    """Refuse to read work units again whose rows lie in one file with those of others.

    Only where a run appends: elsewhere the rows that are read again replace the earlier ones.

    Raises:
        StateError: rows would be doubled, and the operator did not accept that by KEEP.
    """
    if session.job.publishing.mode is not PublishMode.APPEND or decision is FileDecision.KEEP:
        return
    if not signatures or not any(map(is_of_many, session.live_files())):
        return
    compacted = _compacted_units(session.store.blocks())
    found = sorted(each for each in signatures if unit_hash(each) in compacted)
    if found:
        raise StateError(
            f"the rows of {found[0]} are in a file with those of other work units, which"
            " `dil compact` put together: they cannot be withdrawn, and the next run would publish"
            " them a second time",
            "Read everything anew with ms.publish.mode=replace, or give --keep-files if the rows"
            " are gone otherwise or doubled rows are fine. Nothing was changed.",
        )


def _compacted_units(blocks: Iterable[JsonObject]) -> frozenset[str]:
    """Return the hashes of work units whose files were compacted; blocks come newest first."""
    found: set[str] = set()
    after: Mapping[str, Any] = {}
    for block in blocks:
        event: Any = block["event"]
        if event["kind"] == "ResetState" and event.get("act") == COMPACT:
            removes = (after.get("newData") or {}).get("removes") or ()
            found.update(unit_hash_in(str(part["path"])) for part in removes)
        after = event
    return frozenset(found)


def refuse_undo_of_compaction(last: LastAct) -> None:
    """Refuse to undo a compaction: the files before it are deleted, and it lost no row.

    Raises:
        StateError: the last act was one.
    """
    if last.verb == COMPACT:
        raise StateError(
            f"the last act put small files together ({last.act_id}), and the files before it are"
            " gone",
            "There is nothing to take back: it kept every row. Acts before it cannot be undone any"
            " more; `dil state rewind` goes back to a state.",
        )


def refuse_superseded_undo(
    job: Job, last: LastAct, live: Iterable[PublishedFile], returning: Collection[str]
) -> None:
    """Refuse to undo an act if runs have changed its files since.

    The index does not tell where an act left its rows as they were, as publishing a backfill does.

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
    # Whatever the mode is now: runs may have replaced files before it was changed.
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
