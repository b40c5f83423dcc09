"""Moves rows that an operator's act puts aside, and brings them back when the act is undone.

A backfill adds its own rows to ``_quarantine`` and ``_failed``, and takes away the late rows of the
work units that it replaces. The late rows move to ``<dataset>/_dil/aside/<act>/<folder>/``, which
no reader takes for rows of the dataset; undoing the act moves them back. File names in the first
two folders consist of act, work unit and number; in ``aside`` each file keeps its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishingSpec
from dil.model.work_unit import unit_hash
from dil.publishing import layout, withdrawal
from dil.publishing.late_files import late_files
from dil.storage import FileInfo, Filesystem

_FOLDER = "aside"
# Returns the records of files of late rows by their former URIs; called only if such files exist.
Recorded = Callable[[], Mapping[str, PublishedFile]]


def exchanged(
    filesystem: Filesystem, spec: PublishingSpec, undone: str, act_id: str, recorded: Recorded
) -> tuple[Move, ...]:
    """Return the moves that undo what an act did to the rows beside the dataset.

    The files that the act put there are taken away; the files that it took away come back.

    Args:
        filesystem: The filesystem of the dataset.
        spec: The job's publishing settings.
        undone: The act to undo.
        act_id: The id of the new act.
        recorded: Returns the records of files of late rows.

    Raises:
        WriteError: a folder cannot be listed.
    """
    moves: list[Move] = []
    for place in layout.aside_dirs(spec):
        own = [
            file for file in _files(filesystem, place) if _name(file).startswith(f"part-{undone}-")
        ]
        moves += _aside(filesystem, spec, place, own, act_id)
        kept = _files(filesystem, f"{act_folder(spec, undone)}/{_last(place)}")
        moves += _back(filesystem, place, list(kept), act_id, recorded)
    return tuple(moves)


def late_taken(
    filesystem: Filesystem,
    spec: PublishingSpec,
    act_id: str,
    units: Iterable[str],
    runs: Collection[str] | None = None,
) -> tuple[Move, ...]:
    """Return the moves that take late rows aside.

    Args:
        filesystem: The filesystem of the dataset.
        spec: The job's publishing settings.
        act_id: The id of the act that takes the rows.
        units: The signatures of the rows' work units.
        runs: The ids of the runs that published the rows, None for all runs.
    """
    hashes = set(map(unit_hash, units))
    if not hashes:
        return ()
    files = [
        file
        for file in late_files(spec, filesystem)
        if layout.unit_hash_in(file.path) in hashes
        and (runs is None or any(_name(file).startswith(f"part-{run}-") for run in runs))
    ]
    return tuple(_aside(filesystem, spec, layout.late_dir(spec), files, act_id))


def late_back(
    filesystem: Filesystem,
    spec: PublishingSpec,
    act_id: str,
    returning: Iterable[Move],
    recorded: Recorded,
) -> tuple[Move, ...]:
    """Return the moves that bring back the late rows that acts took aside as they withdrew files.

    ``returning`` are the moves that bring the withdrawn files back.
    """
    root = withdrawal.act_folder(spec, "").rstrip("/")
    acts = sorted(
        {
            (move.source.removeprefix(f"{root}/").partition("/")[0], unit_hash(signature))
            for move in returning
            for signature in move.target.signatures
        }
    )
    place = layout.late_dir(spec)
    files = [
        file
        for act, unit in acts
        for file in _files(filesystem, f"{act_folder(spec, act)}/{_last(place)}")
        if layout.unit_hash_in(file.path) == unit
    ]
    return tuple(_back(filesystem, place, files, act_id, recorded))


def late_dir_of(filesystem: Filesystem, spec: PublishingSpec, moves: Iterable[Move]) -> str:
    """Return the URI of the folder of late rows if some moves are of late rows, else ""."""
    folder = layout.late_dir(spec)
    above = (filesystem.path_of(move.target.uri).rpartition("/")[0] for move in moves)
    is_touched = any(_last(each) == _last(folder) for each in above)
    return filesystem.uri(folder) if is_touched else ""


def sweep(filesystem: Filesystem, spec: PublishingSpec, moves: Sequence[Move]) -> None:
    """Delete the folders that these moves emptied."""
    root = f"{layout.dataset_dir(spec)}/{layout.META}/{_FOLDER}"
    for folder in sorted({move.source.rpartition("/")[0] for move in moves}):
        if folder.startswith(f"{root}/"):
            filesystem.delete_empty_folder(folder)
            filesystem.delete_empty_folder(folder.rpartition("/")[0])
            filesystem.delete_empty_folder(root)


def is_taken(move: Move, spec: PublishingSpec, filesystem: Filesystem) -> bool:
    """Return whether a move takes a file away to the folder of an act."""
    root = act_folder(spec, "").rstrip("/")
    return filesystem.path_of(move.target.uri).startswith(f"{root}/")


def act_folder(spec: PublishingSpec, act_id: str) -> str:
    """Return the folder of the rows that an act took away."""
    return f"{layout.dataset_dir(spec)}/{layout.META}/{_FOLDER}/{act_id}"


def _aside(
    filesystem: Filesystem,
    spec: PublishingSpec,
    place: str,
    files: Iterable[FileInfo],
    act_id: str,
) -> Iterator[Move]:
    folder = f"{act_folder(spec, act_id)}/{_last(place)}"
    for file in files:
        yield _move(filesystem, file, f"{folder}/{_name(file)}", act_id, None)


def _back(
    filesystem: Filesystem,
    place: str,
    files: Sequence[FileInfo],
    act_id: str,
    recorded: Recorded,
) -> Iterator[Move]:
    known = recorded() if files else {}
    # The files get new numbers: under append and merge several runs may have files of one work
    # unit.
    for number, file in enumerate(files):
        unit, extension = layout.unit_hash_in(file.path), _name(file).rpartition(".")[2]
        name = layout.final_name(act_id, unit, number, rows=None, extension=extension)
        fact = known.get(filesystem.uri(f"{place}/{_name(file)}"))
        yield _move(filesystem, file, f"{place}/{name}", act_id, fact)


def _files(filesystem: Filesystem, folder: str) -> Iterator[FileInfo]:
    for file in filesystem.files(folder):
        if file.path.rpartition("/")[0] == folder:
            yield file


def _move(
    filesystem: Filesystem, file: FileInfo, path: str, act_id: str, known: PublishedFile | None
) -> Move:
    # Only late rows have records of work unit, number and checksum; other put-aside rows have none.
    rows, sha256 = (0, "") if known is None else (known.rows, known.sha256)
    target = PublishedFile(
        uri=filesystem.uri(path),
        signature="",
        rows=rows,
        bytes=file.size,
        sha256=sha256,
        run_id=act_id,
    )
    return Move(file.path, target)


def _last(folder: str) -> str:
    return folder.rpartition("/")[2]


def _name(file: FileInfo) -> str:
    return _last(file.path)
