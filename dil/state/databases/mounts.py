"""Detects network mounts, on which SQLite's locks cannot be trusted."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

# 9p is not among them: in WSL, gVisor and virtual machines it is a folder of the same machine.
NETWORK_FILESYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smb3", "smbfs", "fuse.sshfs"),
        *("ceph", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "lustre"),
    }
)
_MOUNTS = Path("/proc/mounts")


def network_mount_of(folder: Path) -> str | None:
    """Return the kind of network filesystem that holds ``folder``, None for a local one.

    This only works on Linux; elsewhere the answer is None.
    """
    resolved = folder.resolve()
    try:
        device = resolved.stat().st_dev
    except OSError:
        device = None  # the folder is made later, perhaps below another mount
    kind = _kind_of(resolved, device) if device is not None else _kind_now(resolved)
    return kind if kind in NETWORK_FILESYSTEMS else None


def _kind_now(folder: Path) -> str:
    try:
        table = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return filesystem_of(folder, table)


@lru_cache(maxsize=64)
def _kind_of(folder: Path, _device: int) -> str:
    """Return the filesystem word of a folder, which stays the same on one device."""
    return _kind_now(folder)


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
