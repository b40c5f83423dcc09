"""Detects network mounts, on which SQLite's locks cannot be trusted."""

from __future__ import annotations

import re
from pathlib import Path

NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "fuse.sshfs"}
)  # fmt: skip
_MOUNTS = Path("/proc/mounts")


def network_mount_of(folder: Path) -> str | None:
    """Return the kind of network filesystem that holds ``folder``, None for a local one.

    This only works on Linux; elsewhere the answer is None.
    """
    try:
        table = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = filesystem_of(folder.resolve(), table)
    return kind if kind in NETWORK_FILESYSTEMS else None


def filesystem_of(folder: Path, table: str) -> str:
    r"""Return the filesystem word of the mount that holds an absolute path.

    ``table`` is the text of /proc/mounts (proc(5), fstab(5)): device, mount point with blanks as
    ``\040``, type, options. If one point has several mounts, the last one is on top.
    """
    best, kind = -1, ""
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:  # noqa: PLR2004 - device, point, type
            continue
        point = Path(_unescaped(fields[1]))
        if len(point.parts) >= best and folder.is_relative_to(point):
            best, kind = len(point.parts), fields[2]
    return kind


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
