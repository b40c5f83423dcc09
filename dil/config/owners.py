"""Whose files may take part in a job without being named by it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_ROOT = 0


class Owners:
    """The users who may already do what they like to a job: its author, whoever runs it, root."""

    def __init__(self, job: Path) -> None:
        """Start from the job file; one that cannot be asked for its owner has none."""
        self._users = {_ROOT, os.geteuid(), *(each.st_uid for each in _found(job))}

    def own(self, path: Path) -> bool:
        """Return whether a path belongs to them, and where it is a link, its target too."""
        found = _found(path)
        return bool(found) and all(each.st_uid in self._users for each in found)

    def doubt(self, path: Path, *, in_project: bool) -> str:
        """Return why others may have written a file or folder, as words after its name; else "".

        In a project the group may write, and a file may be of whoever could put it there.
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


def _found(path: Path) -> tuple[os.stat_result, ...]:
    """Return what a path and, behind a symbolic link, its target say; nothing where it is gone."""
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
    """Return whether others than the owner may write as its group.

    Many systems give each user a group of the same name, and files are then open to it.
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
