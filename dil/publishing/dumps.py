"""Publishes dumped files, whose names the source or the job chose (rule U6).

Names can repeat: a later file replaces an earlier one. So only the content of the file at a name
shows whether a staged file was moved there already.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress

from dil.errors import SourceContractError, WriteError
from dil.model.dataset import Move, PublishedFile
from dil.model.job import Job, PublishingSpec
from dil.model.task import Failure, StagedFile, TaskReport
from dil.model.work_unit import read_unit, unit_key_of
from dil.publishing.layout import META, STAGING, dataset_dir, dump_path, folders_above
from dil.publishing.manifest import live_files
from dil.storage import Filesystem
from dil.storage.side_by_side import call_each
from dil.text.file_names import MOST_PATH_BYTES

_PIECE = 1 << 20
_FIX = "Choose another ms.extractor.target.file.name or data.publisher.final.dir."


def check_places(spec: PublishingSpec, filesystem: Filesystem, files: Iterable[StagedFile]) -> None:
    """Raise if dumped files could not be published under their names.

    The check comes before the commit is decided, because a publish that has begun must be finished.

    Raises:
        WriteError: a name leads through a link out of the folder, into another dataset, through a
            file, or to a folder; or the path is too long.
    """
    for file in files:
        path = dump_path(spec, file.name)
        if len(path.encode()) > MOST_PATH_BYTES:
            raise WriteError(f"{path[:200]}...: the path has too many bytes", _FIX)
        filesystem.check_path(path)
        if filesystem.is_folder(path):
            raise WriteError(f"{path} is a folder, so no file can have this path", _FIX)
        _check_folders(spec.final_dir.rstrip("/"), path, filesystem)


def _check_folders(root: str, path: str, filesystem: Filesystem) -> None:
    folder = path.rpartition("/")[0]
    real, inside = filesystem.real_path(folder), filesystem.real_path(root)
    if real != inside and not real.startswith(f"{inside}/"):
        raise WriteError(
            f"{folder} is a link out of {root}, but dumped files must stay below it",
            "Delete the link, or choose another data.publisher.final.dir.",
        )
    while folder != root:
        if filesystem.exists(f"{folder}/{META}"):
            raise WriteError(f"{folder} is another dataset, so no file may be dumped there", _FIX)
        if filesystem.exists(folder) and not filesystem.is_folder(folder):
            raise WriteError(f"{folder} is a file, so no file can be below it", _FIX)
        folder = folder.rpartition("/")[0]


def folds_names(spec: PublishingSpec, filesystem: Filesystem) -> bool:
    """Return whether the store ignores letter case in names, as macOS does.

    Call it while a run has a staging folder.
    """
    root = spec.final_dir.rstrip("/")
    return filesystem.exists(f"{root}/{STAGING}") and filesystem.exists(f"{root}/{STAGING.upper()}")


def fail_equal_names(
    reports: Sequence[TaskReport], *, folds_names: bool = False
) -> tuple[TaskReport, ...]:
    """Return a run's reports; work units that dumped under the same name become failures.

    Otherwise chance would decide which file stays: the next attempt of one work unit would replace
    the published file of the other unit. A file also clashes with a file that needs a folder of the
    same name. If ``folds_names`` is true, names that differ only in letter case or in the form of
    accents clash too.
    """
    key = _folded if folds_names else str
    owners: dict[str, set[str]] = defaultdict(set)
    folders: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        for name in _names(report):
            owners[key(name)].add(report.signature)
            for folder in folders_above(key(name)):
                folders[folder].add(report.signature)
    return tuple(_without_clash(report, owners, folders, key) for report in reports)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _names(report: TaskReport) -> list[str]:
    if report.failure is not None:
        return []
    return [file.name for file in report.files if file.name]


def _without_clash(
    report: TaskReport,
    owners: Mapping[str, set[str]],
    folders: Mapping[str, set[str]],
    key: Callable[[str], str],
) -> TaskReport:
    own: set[str] = set()
    for name in _names(report):
        known = [
            owners[key(name)],
            folders.get(key(name), set()),
            *(owners.get(f, set()) for f in folders_above(key(name))),
        ]
        if key is not str and key(name) in own:
            return _clashing(report, name, f"{report.signature}, in another letter case")
        own.add(key(name))
        others = set().union(*known) - {report.signature}
        if others:
            return _clashing(report, name, min(others))
    return report


def _clashing(report: TaskReport, name: str, owner: str) -> TaskReport:
    failure = Failure(
        SourceContractError.code,
        f'the file name "{name}" is also that of work unit {owner}',
        fix="Put a variable into ms.extractor.target.file.name that distinguishes work units.",
    )
    return replace(report, files=(), failure=failure)


def fail_taken_names(
    job: Job,
    reports: Sequence[TaskReport],
    listed: Sequence[str],
    filesystem: Filesystem,
    *,
    folds_names: bool = False,
) -> tuple[TaskReport, ...]:
    """Return a run's reports; work units that take names of other units' files become failures.

    A work unit fails if its file has the name of another unit's live file and the source still
    lists that unit, because each file would replace the other file. If the source no longer lists
    the other unit, its live file is replaced, and one note counts such files. If ``folds_names`` is
    true, a work unit also fails if its file's name differs from a live file's name only in letter
    case, because the store would replace one file by the other.

    Args:
        job: The job of the run.
        reports: The reports, without clashes among each other.
        listed: The units that the source lists, as JSON, if each file of the source is read once.
        filesystem: The filesystem of the dataset.
        folds_names: See ``fail_equal_names``.
    """
    if folds_names:
        reports = fail_case_variants(job.publishing, reports, filesystem)
    owners = _owners(job, reports, filesystem)
    others = {
        place: found
        for place, report in enumerate(reports)
        if (found := [name for name in _names(report) if _is_other(job, owners.get(name), report)])
    }
    if not others:
        return tuple(reports)
    at_source = {_identity(unit) for unit in listed}
    checked = list(reports)
    replaced: list[tuple[int, str]] = []
    for place, names in others.items():
        refused = [name for name in names if _identity(unit_key_of(owners[name])) in at_source]
        if refused:
            owner = f"{owners[refused[0]]}, whose file is still at the source"
            checked[place] = _clashing(checked[place], refused[0], owner)
        else:
            replaced += [(place, name) for name in names]
    if replaced:
        place, name = replaced[0]
        note = (
            "dumped under names of other work units' files, which the publish replaces: "
            f'{len(replaced):,}, for example "{name}" of {owners[name]}'
        )
        checked[place] = replace(checked[place], notes=(*checked[place].notes, note))
    return tuple(checked)


def fail_case_variants(
    spec: PublishingSpec, reports: Sequence[TaskReport], filesystem: Filesystem
) -> Sequence[TaskReport]:
    """Return the reports; work units become failures if their files' names are taken.

    A name is taken if it differs from the name of a live file only in letter case.
    """
    if not any(map(_names, reports)):
        return reports
    root = dump_path(spec, "")
    live = live_files(filesystem, dataset_dir(spec))
    paths = (filesystem.path_of(file.uri) for file in live if file.is_dump)
    known = {_folded(path): path for path in paths}
    checked = list(reports)
    for place, report in enumerate(reports):
        for name in _names(report):
            other = known.get(_folded(dump_path(spec, name)), "")
            if other and other != dump_path(spec, name):
                checked[place] = _clashing(
                    report, name, f"that published {other.removeprefix(root)}: the store takes both"
                    " names for one",
                )  # fmt: skip
                break
    return checked


def _owners(job: Job, reports: Sequence[TaskReport], filesystem: Filesystem) -> Mapping[str, str]:
    """Return the signatures of the live files that have the names in these reports, by name."""
    names = {name for report in reports for name in _names(report)}
    if not names:
        return {}
    live = live_files(filesystem, dataset_dir(job.publishing))
    signatures = {file.uri: file.signature for file in live if file.is_dump}
    uris = {name: filesystem.uri(dump_path(job.publishing, name)) for name in names}
    return {name: signatures[uri] for name, uri in uris.items() if uri in signatures}


def _is_other(job: Job, owner: str | None, report: TaskReport) -> bool:
    """Return whether the source file of work unit ``owner`` is not the source file of a report.

    Another version of the same file does not count as another file. Without time partitions, the
    same unit with another start of its range does not count either.
    """
    if owner is None or owner == report.signature:
        return False
    if job.planning.partition != "none":
        return True
    return _identity(unit_key_of(owner)) != _identity(unit_key_of(report.signature))


def _identity(unit: str) -> str:
    """Return the part of a unit's text that is equal for all versions of its file."""
    text = unit[max(unit.find("{"), 0) :]
    if not text.startswith('{"file":'):
        return text
    members = read_unit(text)
    return f"file {members['file']}" if members.keys() <= {"file", "version"} else text


def is_lost(move: Move, filesystem: Filesystem) -> bool:
    """Return whether a file to be published is neither staged nor published."""
    if filesystem.exists(move.source):
        return False
    path = filesystem.path_of(move.target.uri)
    if not filesystem.exists(path):
        return True
    return move.target.is_dump and not holds(path, move.target, filesystem)


def lost_moves(moves: Sequence[Move], filesystem: Filesystem) -> tuple[Move, ...]:
    """Return the moves whose file is neither staged nor published."""
    lost = call_each(filesystem, lambda move: is_lost(move, filesystem), moves)
    return tuple(compress(moves, lost))


def is_in_place(move: Move, filesystem: Filesystem) -> bool:
    """Return whether a dumped file is already at its name and no longer staged."""
    return (
        move.target.is_dump and not filesystem.exists(move.source) and not is_lost(move, filesystem)
    )


def holds(path: str, file: PublishedFile, filesystem: Filesystem) -> bool:
    """Return whether the file at a path has the content of a file to be published."""
    digest = hashlib.sha256()
    with filesystem.open_input(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest() == file.sha256
