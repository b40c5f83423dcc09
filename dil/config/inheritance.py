"""Finds the ``.properties`` files that a job file inherits, and checks who owns them.

These files can name code, so a job inherits a file only if the file's author could have changed the
job as well. The search starts in the job file's folder and goes upwards, so that a job means the
same in whatever folder ``dil`` is started. The search ends at the nearest folder that ``.git`` or
``.dil-project`` marks as the root of a project. Without such a mark the search continues to the
root of the file system, and the job inherits a file only if a trusted user owns the file and no
other user may write it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dil.config.findings import Findings
from dil.errors import Origin

MARKS = (".git", ".dil-project")
_FIX = (
    "If you trust the file, name it with `include`, or let the owner of the job file own it and be "
    f"the only user who may write it. In a project, whose root holds {MARKS[0]} or {MARKS[1]}, the "
    "file's group may write it too."
)
# Gradle and Log4j look for their settings under these names.
_OF_OTHER_PROGRAMS = frozenset({"gradle.properties", "log4j.properties", "log4j2.properties"})
_ROOT = 0


def inherited_files(path: str, findings: Findings) -> list[str]:
    """Return the ``.properties`` files above a job file, farthest first.

    A finding names each inherited file and each file that is left out.
    """
    job = Path(path)
    owners = TrustedUsers(job)
    folders, in_project = _folders(job, owners, findings)
    found: list[str] = []
    for shown, folder in folders:
        if job.suffix == ".properties" and folder == job.parent.resolve():
            # The job file's neighbours are other jobs, not its project file.
            continue
        names = list(_trusted(folder, owners, findings, path, in_project=in_project))
        if len(names) > 1:
            findings.problem(
                "",
                f"holds several .properties files: {', '.join(names)}",
                "A folder may hold one, which the jobs in and below it inherit; use `include` for "
                f"other files. A {MARKS[1]} in a folder below ends the search there.",
                Origin(str(shown)),
            )
        elif names:
            found.append(str(shown / names[0]))
            findings.information(f"inherits {folder / names[0]}", Origin(path))
    return found[::-1]


def normal(path: Path) -> Path:
    """Return a path without ``.`` and ``..``; a relative path stays relative."""
    return Path(os.path.normpath(path))


def _folders(
    job: Path, owners: TrustedUsers, findings: Findings
) -> tuple[list[tuple[Path, Path]], bool]:
    """Return the folders from the job file's upwards, and whether a project's mark ended the walk.

    Each folder is a pair of paths: the path that messages show (relative if the job file was named
    by a relative path), and the resolved path. A finding names each mark that does not count.
    """
    start = job.parent
    here = start.resolve()
    found: list[tuple[Path, Path]] = []
    for steps, folder in enumerate((here, *here.parents)):
        shown = folder if start == here else normal(start / Path(*[".."] * steps))
        # Behind a symbolic link, `..` is not the folder above.
        is_same = shown == folder or shown.resolve() == folder
        found.append((shown if is_same else folder, folder))
        marks = [path for mark in MARKS if os.path.lexists(path := folder / mark)]
        # A mark that another user made must not decide which files the job inherits.
        if any(map(owners.own, marks)):
            return found, True
        for strange in marks:
            doubt = (
                owners.doubt(strange, in_project=False)
                or "is not owned by the owner of the job file"
            )
            findings.notice(
                "",
                f"does not take {strange} as the mark of its project: it {doubt}",
                "Let the owner of the job file own it.",
                Origin(str(job)),
            )
    return found, False


def _trusted(
    folder: Path, owners: TrustedUsers, findings: Findings, job: str, *, in_project: bool
) -> Iterator[str]:
    try:
        # No path for each item: a folder above may hold thousands.
        with os.scandir(folder) as items:
            found = [each for each in items if each.name.endswith(".properties")]
            names = sorted({each.name for each in found if each.is_file()} - _OF_OTHER_PROGRAMS)
    except (FileNotFoundError, PermissionError):
        return  # A folder that the user may not list holds no file for this job.
    for item in (folder / name for name in names if not name.startswith(".")):
        if doubt := owners.doubt(item, in_project=in_project):
            findings.notice("", f"does not inherit {item}, which {doubt}", _FIX, Origin(job))
        else:
            yield item.name


class TrustedUsers:
    """The users who control a job anyway: its author, the user who runs it, root."""

    def __init__(self, job: Path) -> None:
        """Find the owner of the job file.

        If the owner is unknown, only the running user and root are trusted.
        """
        self._users = {_ROOT, os.geteuid(), *(each.st_uid for each in _found(job))}

    def own(self, path: Path) -> bool:
        """Return whether a path, and the target of a link, belong to these users."""
        found = _found(path)
        return bool(found) and all(each.st_uid in self._users for each in found)

    def doubt(self, path: Path, *, in_project: bool) -> str:
        """Return why another user may have written a path, as words after its name; else "".

        In a project the group may write, and a file may belong to any user who could put it there.
        """
        found = _found(path)
        others = [each for each in found if each.st_uid not in self._users]
        if others and not (in_project and not _is_open(path.parent)):
            return f"belongs to {_user(others[0].st_uid)}"
        if not found or _is_open(path):
            return "may be changed by everybody"
        if not in_project and any(map(_is_open_to_group, found)):
            return "may be changed by its group"
        return ""


def may_import(folder: Path, key: str, owners: TrustedUsers, findings: Findings) -> bool:
    """Return whether classes may be imported from a folder; add a problem of ``key`` if not."""
    doubt = owners.doubt(folder, in_project=True)
    if doubt:
        findings.problem(
            key,
            f"would import classes from {folder}, which {doubt}",
            "Move the job and its classes to a folder that other users cannot write to.",
        )
    return not doubt


def _found(path: Path) -> tuple[os.stat_result, ...]:
    """Return the stat results of a path and of a link's target; empty if the path is gone."""
    try:
        return path.lstat(), path.stat()
    except OSError:
        return ()


def _is_open(path: Path) -> bool:
    if not any(
        each.st_mode & stat.S_IWOTH and not stat.S_ISLNK(each.st_mode) for each in _found(path)
    ):
        return False
    # Kubernetes mounts configuration read-only, with folders that look as if all could write.
    return not os.statvfs(path).f_flag & os.ST_RDONLY


def _is_open_to_group(found: os.stat_result) -> bool:
    """Return whether users other than the owner may write a file as members of its group.

    Many systems give each user a group of the same name, and let that group write the user's files.
    """
    if not found.st_mode & stat.S_IWGRP or stat.S_ISLNK(found.st_mode):
        return False
    import grp

    try:
        group = grp.getgrgid(found.st_gid)
    except KeyError:
        return True
    owner = _user(found.st_uid)
    return group.gr_name != owner or not {*group.gr_mem} <= {owner}


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
