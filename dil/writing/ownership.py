"""Gives staged files to ``writer.file.owner`` and ``writer.file.group``; local files only.

Files keep owner and group when they move to their final names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from grp import getgrnam
from pwd import getpwnam

from dil.errors import WriteError
from dil.model.task import StagedFile


def give(files: Iterable[StagedFile], owner: str, group: str) -> None:
    """Give files to an owner and a group; an empty text keeps the present one.

    Raises:
        WriteError: the owner or group is unknown on this machine, or this user may not change it.
    """
    if not owner and not group:
        return
    try:
        user_id = getpwnam(owner).pw_uid if owner else -1
        group_id = getgrnam(group).gr_gid if group else -1
        for file in files:
            os.chown(file.path, user_id, group_id)
    except (KeyError, OSError) as error:
        # A KeyError's own text says "name not found" with the name.
        reason = getattr(error, "strerror", None) or str(error).strip("'\"")
        raise WriteError(
            f"files cannot be given to writer.file.owner={owner}, writer.file.group={group}:"
            f" {reason}",
            "Run as a user with that right; or set an owner and a group that exist on every"
            " machine of the cluster; or leave these properties out.",
        ) from error
