"""Finds and deletes old files that no run reads, in the folders of a dataset.

These are copies of files that acts withdrew, rows that the undo of an act removed
(``_dil/withdrawn``, ``_dil/aside``), rows that were put aside or refused (``_quarantine``,
``_failed``), and records of requests (``_audit``). No link out of the dataset's folder is followed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from dil.model.job import PublishingSpec
from dil.publishing import layout, set_aside, withdrawal
from dil.publishing.own_folders import link_check
from dil.storage import FileInfo, Filesystem
from dil.storage.side_by_side import call_each


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Old files in one folder; ``folder`` is relative to the dataset's folder."""

    folder: str
    files: tuple[FileInfo, ...]

    @property
    def bytes(self) -> int:
        """Return the total size of the files in bytes."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Ownership:
    """The ownership that decides which leftovers a job may delete.

    ``acts`` are the ids of its own acts, and ``last_act`` is the act that can be undone, empty if
    there is none. ``is_alone`` is true if no other job publishes to the dataset; ``has_audit`` is
    true if the job's records of requests are in the dataset's folder.
    """

    acts: Collection[str]
    last_act: str
    is_alone: bool
    has_audit: bool


def old_leftovers(
    filesystem: Filesystem, spec: PublishingSpec, owner: Ownership, before_ms: int
) -> tuple[Leftovers, ...]:
    """Return unneeded files whose last change was at or before an instant in epoch ms UTC.

    Files that the last act withdrew or put aside stay, because the act's undo needs them. The files
    that one act withdrew are returned together or not at all.
    """
    found: dict[str, list[FileInfo]] = {}
    for root in (withdrawal.act_folder(spec, ""), set_aside.act_folder(spec, "")):
        found[root.rstrip("/")] = list(
            _of_acts(filesystem, spec, root.rstrip("/"), owner, before_ms)
        )
    if owner.is_alone:
        for root in (layout.quarantine_dir(spec), layout.refused_dir(spec)):
            found[root] = [
                file
                for file in _old(_own_files(filesystem, spec, root), before_ms)
                if not (owner.last_act and f"-{owner.last_act}-" in file.path.rpartition("/")[2])
            ]
        if owner.has_audit:
            root = layout.audit_dir(spec)
            found[root] = list(_old(_own_files(filesystem, spec, root), before_ms))
    base = f"{layout.dataset_dir(spec)}/"
    return tuple(
        Leftovers(root.removeprefix(base), tuple(files)) for root, files in found.items() if files
    )


def delete(filesystem: Filesystem, spec: PublishingSpec, leftovers: Iterable[Leftovers]) -> None:
    """Delete leftovers, and then their empty folders; it may be repeated.

    Raises:
        WriteError: the store refused the deletion.
    """
    base = layout.dataset_dir(spec)
    for each in leftovers:
        paths = [file.path for file in each.files]
        call_each(filesystem, filesystem.delete_file, paths)
        root = f"{base}/{each.folder}"
        above = {folder for path in paths for folder in layout.folders_above(path, root)}
        for folder in sorted(above, key=len, reverse=True):
            filesystem.delete_empty_folder(folder)
        filesystem.delete_empty_folder(root)


def _of_acts(
    filesystem: Filesystem, spec: PublishingSpec, root: str, owner: Ownership, before_ms: int
) -> Iterator[FileInfo]:
    """Yield the files of each act whose files are all old.

    An act that the chain does not know counts too: a crash came before the act was decided, or
    another job requested the act.
    """
    by_act: dict[str, list[FileInfo]] = defaultdict(list)
    for file in _own_files(filesystem, spec, root):
        by_act[file.path.removeprefix(f"{root}/").partition("/")[0]].append(file)
    for act_id, files in by_act.items():
        is_own = act_id in owner.acts or owner.is_alone
        if is_own and act_id != owner.last_act and len([*_old(files, before_ms)]) == len(files):
            yield from files


def _own_files(filesystem: Filesystem, spec: PublishingSpec, root: str) -> Iterator[FileInfo]:
    """Yield the files below a folder of the dataset, but not through a link out of the dataset."""
    is_here = link_check(layout.dataset_dir(spec), filesystem)
    return (file for file in filesystem.files(root) if is_here(file.path.rpartition("/")[0]))


def _old(files: Iterable[FileInfo], before_ms: int) -> Iterator[FileInfo]:
    return (file for file in files if file.modified <= before_ms)
