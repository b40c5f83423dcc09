"""Lists the content of a folder of an SFTP server (docs/sftp.md)."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from connectors.files.names import Listed
from connectors.sftp.failures import NotThereError, translated_errors
from dil.errors import SourceContractError
from dil.model.messages import shortened

if TYPE_CHECKING:
    import paramiko


def listed_files(
    client: paramiko.SFTPClient, path: str, shown: str, *, wildcards: bool
) -> list[Listed]:
    """Return the files that a path selects, but no folders; they have full paths and are sorted.

    The path of a folder selects the files in it; the path of a file selects this file. In the last
    part of any other path, ``*`` and ``?`` are wildcards if ``wildcards`` is true. Only a pattern
    with a leading dot matches names with a leading dot.

    Raises:
        SourceError: the file or folder does not exist, or the user may not read it.
        SourceContractError: the server lists a name that leads out of the folder.
    """
    with translated_errors(shown):
        full = _absolute(client, path)
        try:
            with translated_errors(shown):
                itself = client.stat(full)
        except NotThereError:
            folder, _, last = full.rpartition("/")
            if not wildcards or not has_wildcards(last):
                raise
            found = _files(client, folder)
            return [each for each in found if _is_meant(last, each.path.rpartition("/")[2])]
        if stat.S_ISDIR(itself.st_mode or 0):
            return _files(client, full.rstrip("/"))
        return [_listed(full, itself)]


def has_wildcards(text: str) -> bool:
    """Return whether a path has wildcard characters."""
    return "*" in text or "?" in text


def _absolute(client: paramiko.SFTPClient, path: str) -> str:
    if path.startswith("/"):
        return path if path == "/" else path.rstrip("/")
    home = (client.normalize(".") or "").rstrip("/")
    return home + "/" + path.rstrip("/") if path != "." else home or "/"


def _files(client: paramiko.SFTPClient, folder: str) -> list[Listed]:
    """Return the sorted files in a folder without a final slash; links count as their targets."""
    files: list[Listed] = []
    unsure: list[str] = []
    links: list[str] = []
    for entry in client.listdir_iter(folder or "/"):
        if "/" in entry.filename or "\0" in entry.filename:
            raise SourceContractError(
                f"{folder or '/'}: the server lists {shortened(repr(entry.filename))}, which is no"
                " name of a file in that folder",
                "Inform the server's owner. DIL reads no file outside the folder.",
            )
        mode, path = entry.st_mode or 0, f"{folder}/{entry.filename}"
        if stat.S_ISREG(mode):
            files.append(_listed(path, entry))
        elif stat.S_ISLNK(mode):
            links.append(path)
        elif not mode:
            unsure.append(path)
    files += [found for path in unsure if (found := _looked_at(client, path)) is not None]
    files += _linked(client, folder, links)
    return sorted(files, key=attrgetter("path"))


def _linked(client: paramiko.SFTPClient, folder: str, links: list[str]) -> Iterator[Listed]:
    """Yield the files that links of a folder lead to.

    The server resolves the links. If a target is in the folder itself, its path begins with the
    requested path of the folder, which may be a link too. If the server resolves no links, it
    returns the path of the link; no other file has this path.
    """
    if not links:
        return
    real = _real(client, folder or "/").rstrip("/")
    for path in links:
        found = _looked_at(client, path)
        if found is None:
            continue
        target = _real(client, path)
        parent, _, name = target.rpartition("/")
        yield replace(found, leads_to=f"{folder}/{name}" if parent == real else target)


def _real(client: paramiko.SFTPClient, path: str) -> str:
    """Return a path without links; unchanged if the server cannot resolve the path."""
    try:
        return client.normalize(path) or path
    except FileNotFoundError:
        return path


def _looked_at(client: paramiko.SFTPClient, path: str) -> Listed | None:
    """Return a listed entry of unknown kind if its status shows a file, else None."""
    try:
        status = client.stat(path)
    except FileNotFoundError:
        return None  # The link leads nowhere, or the file vanished meanwhile.
    is_file = status.st_mode is None or stat.S_ISREG(status.st_mode)
    return _listed(path, status) if is_file else None


def _listed(path: str, status: paramiko.SFTPAttributes) -> Listed:
    modified_ms = None if status.st_mtime is None else status.st_mtime * 1000
    return Listed(path, modified_ms, version_of(status))


def version_of(status: paramiko.SFTPAttributes) -> str:
    """Return a text that identifies a file's content, as far as the protocol shows it."""
    return f"{status.st_size}-{status.st_mtime}"


def _is_meant(pattern: str, name: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    wanted = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(wanted, name, re.DOTALL) is not None
