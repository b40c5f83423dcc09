"""Refuses amendments that would lose or double rows.

The work-unit index shows which work units changed since an act. The files show two things: for
which work units `dil compact` wrote joint files, and which files runs have replaced since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from dil.errors import StateError
from dil.model.dataset import EXPIRY, PublishedFile, is_compaction
from dil.model.destination import TableFormat
from dil.model.job import Job, PublishMode
from dil.model.json import JsonObject
from dil.model.work_unit import unit_hash
from dil.operator.amendments.files import FileDecision
from dil.operator.amendments.relisting import VERB as RELIST
from dil.operator.session import OperatorSession
from dil.publishing.layout import MERGED, SHARED, dataset_dir, unit_hash_in
from dil.publishing.publisher import untracked_files
from dil.publishing.rewritten import rewritten_units
from dil.spi.state_store import changed_uris
from dil.state.amendments.last_act import LastAct


def refuse_doubled_rows(
    session: OperatorSession,
    signatures: Collection[str],
    decision: FileDecision,
    *,
    rewinds_to: int | None = None,
) -> None:
    """Refuse to read work units again whose rows cannot be withdrawn one by one.

    This applies only if runs append. Otherwise rows that are read again replace the earlier ones,
    and the run itself checks for rows that another program may have rewritten.

    Args:
        session: The operator's session.
        signatures: The work units.
        decision: The decision about published files; KEEP accepts doubled rows.
        rewinds_to: The block to which a rewind goes back.

    Raises:
        StateError: rows would be doubled, and the operator did not accept that by KEEP.
    """
    if session.job.publishing.mode is not PublishMode.APPEND or decision is FileDecision.KEEP:
        return
    if not signatures:
        return
    live = session.live_files()
    if any(file.has_unknown_units for file in live):
        compacted = _compacted_units(session.store.blocks())
        found = sorted(each for each in signatures if unit_hash(each) in compacted)
        if found:
            raise StateError(
                f"`dil compact` wrote the rows of {found[0]} into one file with rows of other work "
                "units: they cannot be withdrawn, and the next run would publish them a second "
                "time",
                "Read everything again with ms.publish.mode=replace, or give --keep-files if you "
                "removed the rows yourself, or if you accept doubled rows. Nothing was changed.",
            )
    refusal = refusal_of_rewritten(session, signatures)
    if refusal is not None:
        raise StateError(
            refusal.message,
            f"{refusal.fix} Give --keep-files if you removed the rows yourself, or if you accept "
            "doubled rows.",
        )
    _refuse_unlisted(session, live, signatures)
    if rewinds_to is not None and any(
        file.is_shared and is_compaction(file.run_id) and not file.signatures.isdisjoint(signatures)
        for file in live
    ):
        _refuse_rewind_over_compaction(session, rewinds_to)


def refusal_of_rewritten(
    session: OperatorSession, signatures: Collection[str]
) -> StateError | None:
    """Return why work units cannot be read again or replaced, None if they can.

    A manifest lists only published files. So the folder is searched for files of other writers, and
    for published files whose length has changed.
    """
    if not session.job.publishing.keeps_files:
        return None
    job, filesystem, live = session.job, session.filesystem, session.live_files()
    spec = job.publishing
    seen = (*live, *_unlisted_files(session, live))
    altered: list[PublishedFile] = []
    if spec.table.format is TableFormat.FILES:  # files of a table are never overwritten
        sizes = {file.path: file.size for file in filesystem.files(dataset_dir(spec))}
        altered = [
            file
            for file in live
            if sizes.get(filesystem.path_of(file.uri), file.bytes) != file.bytes
        ]
    return rewritten_units(job.name, session.store, spec, filesystem, seen, signatures, altered)


def _refuse_unlisted(
    session: OperatorSession, live: Sequence[PublishedFile], signatures: Collection[str]
) -> None:
    """Refuse if files of the job that the manifest does not list have rows of the work units.

    The manifest may have been lost, or another program undid a compaction of a table. A job that
    appends to the same dataset has unlisted files while it publishes.
    """
    if not session.job.publishing.keeps_files:
        return
    words = {SHARED, MERGED, *map(unit_hash, signatures)}
    uris = (file.uri for file in _unlisted_files(session, live))
    unlisted = {uri for uri in uris if unit_hash_in(uri) in words}
    blocks = session.store.blocks() if unlisted else ()
    found = next((uri for each in blocks for uri in changed_uris(each)[0] if uri in unlisted), None)
    if found is not None:
        raise StateError(
            f"{found} has rows of these work units, and the dataset's manifest does not list "
            "it: they cannot be withdrawn, and the next run would publish them a second time",
            "If a compaction was undone in the table's log, restore the version after it; if the "
            "manifest was lost, restore the newest one. Or read everything again with "
            "ms.publish.mode=replace, or give --keep-files if you removed the rows yourself, or if "
            "you accept doubled rows. Nothing was changed.",
        )


def _unlisted_files(
    session: OperatorSession, live: Sequence[PublishedFile]
) -> tuple[PublishedFile, ...]:
    """Return the files in the dataset's folder or table that the manifest does not list."""
    searched = replace(session.job.publishing, mode=PublishMode.WINDOW_REPLACE)
    found = untracked_files(searched, live, session.filesystem)
    return tuple(file for file in found if not file.run_id)


def _compacted_units(blocks: Iterable[JsonObject]) -> frozenset[str]:
    """Return the hashes of work units whose files were compacted; blocks come newest first."""
    found: set[str] = set()
    removed: list[str] = []  # by the block after the act's ResetState
    for block in blocks:
        event: Any = block["event"]
        if event["kind"] == "ResetState" and is_compaction(str(event.get("act"))):
            found.update(map(unit_hash_in, removed))
        _, removed = changed_uris(block)
    return frozenset(found)


def _refuse_rewind_over_compaction(session: OperatorSession, sequence: int) -> None:
    """Refuse if files were joined after a block: they do not show which rows precede the block."""
    for block in session.store.blocks_of_kind("ResetState"):
        event: Any = block["event"]
        number = int(str(block["sequenceNumber"]))
        if number > sequence and is_compaction(str(event.get("act"))):
            raise StateError(
                f"`dil compact` joined files after block {sequence} (in block {number}), and the "
                f"new files do not show which rows are older than block {sequence}",
                f"Rewind to block {number + int(event['dataBlocks'])} or later, or let single work"
                " units be read again by `dil state forget`. Give --keep-files if you removed the "
                "rows yourself, or if you accept doubled rows. Nothing was changed.",
            )


def refuse_undo_of_files(last: LastAct) -> None:
    """Refuse to undo a compaction, ``relist`` or ``expire``: files are gone, or no row changed.

    Raises:
        StateError: the last act was one of these.
    """
    if last.verb == RELIST:
        raise StateError(
            f"the last act recorded which files are live ({last.act_id}): it changed no row",
            "There is nothing to take back. `dil state rewind` goes back to an earlier state.",
        )
    if last.verb == EXPIRY:
        raise StateError(
            f"the last act deleted published files that were too old ({last.act_id}), for good",
            "There is nothing to take back. Earlier acts cannot be undone any more; `dil state"
            " rewind` goes back to an earlier state.",
        )
    if is_compaction(last.verb):
        raise StateError(
            f"the last act joined small files ({last.act_id}), and the files before it are gone",
            "There is nothing to take back, because that act kept every row. Earlier acts cannot"
            " be undone any more; `dil state rewind` goes back to an earlier state.",
        )


def refuse_superseded_undo(
    job: Job, last: LastAct, live: Iterable[PublishedFile], returning: Collection[str]
) -> None:
    """Refuse to undo an act if runs have changed its files since.

    The index alone does not show this for an act that left the index unchanged, such as the publish
    of a backfill.

    Args:
        job: The job.
        last: The act, settled.
        live: The files that are live now.
        returning: The signatures of the files that would come back.

    Raises:
        StateError: rows would be lost or doubled.
    """
    mode = job.publishing.mode
    if mode is PublishMode.MERGE and last.has_files_since:
        raise StateError(
            f"{last.verb} {last.act_id} cannot be taken back: since then, runs have merged rows "
            "with the rows that it published",
            "Nothing was changed. Read the range again with a new backfill.",
        )
    if not job.publishing.keeps_files and mode is PublishMode.APPEND:
        return
    here = list(live)
    # This is checked in every mode: runs may have replaced files before the mode changed.
    gone = last.added.difference(file.uri for file in here)
    newer: set[str] = set()
    if mode in (PublishMode.WINDOW_REPLACE, PublishMode.REPLACE):
        # This includes work units in which the run found no row.
        newer.update(last.read_since.intersection(returning))
        for file in here:
            if file.uri not in last.added:
                newer |= file.signatures.intersection(returning) - last.signatures
    if gone or newer:
        example = min(newer or gone)
        raise StateError(
            f"{last.verb} {last.act_id} cannot be taken back: runs have published "
            f"{len(newer) or len(gone)} of its work units or files again since ({example})",
            "Nothing was changed: the newer rows stay.",
        )
