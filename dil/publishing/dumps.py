"""Dumped files, whose names the source or the job chose (behaviour.md B14.2).

Their names come back: a later file takes the place of an earlier one. So what is there tells only
by its content whether it was moved already.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dil.errors import SourceContractError, WriteError
from dil.model.dataset import Move, PublishedFile
from dil.model.job import PublishingSpec
from dil.model.task import Failure, StagedFile, TaskReport
from dil.publishing.layout import META, dump_path
from dil.storage import Filesystem
from dil.text.file_names import MOST_PATH_BYTES

_PIECE = 1 << 20
_FIX = "Choose another ms.extractor.target.file.name or data.publisher.final.dir."


def check_places(spec: PublishingSpec, filesystem: Filesystem, files: Iterable[StagedFile]) -> None:
    """Refuse dumped files that could not be published under their names.

    Before anything is decided: a publish that was begun has to be finished.

    Raises:
        WriteError: a name leads through a link out of the folder, into another dataset, through a
            file, or to a folder; or the path is too long.
    """
    for file in files:
        path = dump_path(spec, file.name)
        if len(path.encode()) > MOST_PATH_BYTES:
            raise WriteError(f"{path[:200]}...: the path has too many bytes", _FIX)
        if filesystem.is_folder(path):
            raise WriteError(f"{path} is a folder, no file can be there", _FIX)
        _check_folders(spec.final_dir.rstrip("/"), path, filesystem)


def _check_folders(root: str, path: str, filesystem: Filesystem) -> None:
    folder = path.rpartition("/")[0]
    real, inside = filesystem.real_path(folder), filesystem.real_path(root)
    if real != inside and not real.startswith(f"{inside}/"):
        raise WriteError(
            f"{folder} is a link out of {root}: dumped files stay below it",
            "Take the link away, or choose another data.publisher.final.dir.",
        )
    while folder != root:
        if filesystem.exists(f"{folder}/{META}"):
            raise WriteError(f"{folder} is a dataset of its own: nothing is dumped there", _FIX)
        if filesystem.exists(folder) and not filesystem.is_folder(folder):
            raise WriteError(f"{folder} is a file, so no file can be below it", _FIX)
        folder = folder.rpartition("/")[0]


def without_clashes(reports: Sequence[TaskReport]) -> tuple[TaskReport, ...]:
    """Return the reports of a run; work units that dumped under one name become failures, all.

    Which file were to stay would be chance: the first one, published, would be replaced by the
    other one's next attempt. A file whose name is a folder of another file's name is a clash, too.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    folders: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        for name in _names(report):
            owners[name].add(report.signature)
            for each in _above(name):
                folders[each].add(report.signature)
    return tuple(_without_clash(report, owners, folders) for report in reports)


def _names(report: TaskReport) -> list[str]:
    if report.failure is not None:
        return []
    return [file.name for file in report.files if file.name]


def _without_clash(
    report: TaskReport, owners: Mapping[str, set[str]], folders: Mapping[str, set[str]]
) -> TaskReport:
    for name in _names(report):
        known = [
            owners[name],
            folders.get(name, set()),
            *(owners.get(f, set()) for f in _above(name)),
        ]
        others = set().union(*known) - {report.signature}
        if others:
            return _clashing(report, name, min(others))
    return report


def _above(name: str) -> Iterable[str]:
    """Yield the folders that a name is in."""
    folder = name.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


def _clashing(report: TaskReport, name: str, owner: str) -> TaskReport:
    failure = Failure(
        SourceContractError.code,
        f'the file name "{name}" is also that of work unit {owner}',
        fix="Put a variable into ms.extractor.target.file.name that tells work units apart.",
    )
    return replace(report, files=(), failure=failure)


def is_lost(move: Move, filesystem: Filesystem) -> bool:
    """Tell whether a file that was to be published is neither staged nor published."""
    if filesystem.exists(move.source):
        return False
    path = filesystem.path_of(move.target.uri)
    if not filesystem.exists(path):
        return True
    return move.target.is_dump and not _is_same(path, move.target, filesystem)


def _is_same(path: str, file: PublishedFile, filesystem: Filesystem) -> bool:
    digest = hashlib.sha256()
    with filesystem.open_input(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest() == file.sha256
