"""Finds files that another program rewrote: the work units of their rows are unknown.

The other program replaced the job's files by files of its own. If a run read the rows of these
files again, the rows would be doubled.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from dil.errors import StateError
from dil.model.dataset import PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec, PublishMode
from dil.model.work_unit import unit_hash
from dil.publishing import manifest
from dil.publishing.layout import MERGED, SHARED, dataset_dir, unit_hash_in
from dil.publishing.lost_state import newer_dataset, not_loaded
from dil.spi.state_store import StateStore
from dil.storage import Filesystem
from dil.storage.side_by_side import call_each

_HASH = re.compile("[0-9a-f]{16}")
_WAYS_BACK = {
    TableFormat.FILES: "Put the files back that are gone",
    TableFormat.DELTA: "Set the table back to its earlier version (RESTORE TABLE)",
    TableFormat.ICEBERG: "Set the table back to its earlier version (rollback_to_snapshot)",
}


def rewritten_units(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    filesystem: Filesystem,
    files: Iterable[PublishedFile],
    signatures: Iterable[str],
    altered: Iterable[PublishedFile] = (),
) -> StateError | None:
    """Return an error if files of another program may hold rows of these work units, else None.

    Args:
        job: The name of the job.
        store: The job's state; if it has no records, the check uses only the dataset's records.
        spec: The job's publishing settings.
        filesystem: The filesystem of the dataset.
        files: The live files, and visible files that no manifest lists.
        signatures: The work units.
        altered: The live files that another program is known to have overwritten.
    """
    if not spec.keeps_files:
        return None
    seen = list(files)
    strange = {file.format: f"wrote over {file.uri}" for file in altered}
    strange |= {
        file.format: f"brought files of its own ({file.uri})" for file in seen if _is_strange(file)
    }
    wanted = frozenset(signatures)
    if not strange or not wanted:
        return None
    if spec.table.format is TableFormat.FILES:
        gone: Iterable[PublishedFile] = _missing(store, spec, filesystem, seen, wanted)
    else:
        gone = _left_table(job, store, spec, filesystem, seen)
    for file in gone:
        units = _units_of(file, wanted, store) if file.format in strange else ()
        if units:
            return _refusal(spec, file.uri, strange[file.format], min(units))
    return None


def refuse_rewritten(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    filesystem: Filesystem,
    files: Iterable[PublishedFile],
    signatures: Iterable[str],
) -> None:
    """Raise if files of another program may hold rows of work units that are to be replaced.

    The arguments are as for ``rewritten_units``.

    Raises:
        StateError: another program may have written their rows; nothing was decided.
    """
    if spec.mode is not PublishMode.WINDOW_REPLACE:
        return
    refusal = rewritten_units(job, store, spec, filesystem, files, signatures)
    if refusal is not None:
        raise refusal


def left_behind(
    store: StateStore, spec: PublishingSpec, filesystem: Filesystem, live: Iterable[PublishedFile]
) -> tuple[str, ...]:
    """Return the URIs of files that the chain lists and the dataset's table no longer has."""
    if spec.warehouse is not None:
        listed = {file.uri for file in live}
        unlisted = [uri for uri in store.live_uris() if uri not in listed]
        return tuple(not_loaded(unlisted, spec, filesystem)) if unlisted else ()
    if spec.table.format is TableFormat.FILES or not spec.keeps_files:
        return ()
    here = {_name(file.uri) for file in live}
    folder = filesystem.uri(dataset_dir(spec)).rstrip("/")
    known = (uri for uri in store.live_uris() if uri.startswith(f"{folder}/"))
    return tuple(uri for uri in known if _name(uri) not in here)


def _is_strange(file: PublishedFile) -> bool:
    """Return whether another program named a file: DIL's names contain the work unit."""
    word = unit_hash_in(file.uri)
    return not (file.run_id or word in (SHARED, MERGED) or _HASH.fullmatch(word))


def _missing(
    store: StateStore,
    spec: PublishingSpec,
    filesystem: Filesystem,
    files: Iterable[PublishedFile],
    wanted: frozenset[str],
) -> Iterator[PublishedFile]:
    """Yield the listed files that no longer exist and have rows of the wanted work units.

    Dumped files do not count: no program rewrites dumped files, but programs move them away.
    """
    listed = [file for file in files if not (file.is_dump or wanted.isdisjoint(file.signatures))]
    if spec.mode is PublishMode.APPEND:  # Other jobs may publish there.
        own = store.own_files(listed)
        listed = [file for file in listed if file.uri in own]
    paths = [filesystem.path_of(file.uri) for file in listed]
    there = call_each(filesystem, filesystem.exists, paths)
    yield from (file for file, is_there in zip(listed, there, strict=True) if not is_there)


def _left_table(
    job: str,
    store: StateStore,
    spec: PublishingSpec,
    filesystem: Filesystem,
    live: Sequence[PublishedFile],
) -> Iterator[PublishedFile]:
    """Yield the files that the manifest or the chain lists and the table no longer has.

    The manifest records which rows belong to which work unit, but only until the next publish; the
    chain keeps its record longer. Only file names are compared, because a dataset may have been
    moved.
    """
    here = {_name(file.uri) for file in live}
    listed = manifest.live_files(filesystem, dataset_dir(spec))
    gone = [file for file in listed if _name(file.uri) not in here]
    if spec.mode is PublishMode.APPEND:  # Other jobs may publish there.
        own = store.own_files(gone)
        gone = [file for file in gone if file.uri in own]
    yield from gone
    if newer_dataset(job, store, spec, filesystem):
        return  # An older copy of the state does not know which files runs removed since.
    named = {_name(file.uri) for file in gone}
    for uri in left_behind(store, spec, filesystem, live):
        if _name(uri) not in named:
            yield PublishedFile(uri, "", 0, 0, "", "")


def _units_of(file: PublishedFile, wanted: frozenset[str], store: StateStore) -> Collection[str]:
    """Return the wanted work units that may have had rows in a file."""
    if file.signatures:
        return file.signatures & wanted
    word = unit_hash_in(file.uri)
    if _HASH.fullmatch(word):
        return [signature for signature in wanted if unit_hash(signature) == word]
    # A shared file may have rows of any work unit that was ever read.
    return [entry.signature for entry in store.unit_entries() if entry.signature in wanted]


def _refusal(spec: PublishingSpec, gone: str, act: str, signature: str) -> StateError:
    kind = "files" if spec.table.format is TableFormat.FILES else f"{spec.table.format} table"
    return StateError(
        f"another program removed {gone} from the {kind} of {dataset_dir(spec)} and {act}, which"
        f" may hold the rows of {signature}: they would be doubled",
        f"Nothing was published. {_WAYS_BACK[spec.table.format]}, or read all rows again once with"
        " ms.publish.mode=replace. Then keep that program away from the table: `dil compact`"
        " merges files and keeps the record of which rows belong to which work unit.",
    )


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
