"""Uploads a file under a temporary name, verifies it, and renames it."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from connectors.files.payload import OpenPayload, PayloadFile
from connectors.sftp.connection import SftpConnection
from connectors.sftp.failures import NotThereError, translated_errors
from dil.errors import SourceError, TransientSourceError
from dil.model.json import JsonObject

if TYPE_CHECKING:
    import paramiko

_BLOCK = 1024 * 1024


def put(connection: SftpConnection, payload: PayloadFile, folder: str) -> JsonObject:
    """Send one file into a folder; return its path, size in bytes, and MD5.

    Readers of the folder see either the whole new file or the previous file under the file's name.

    Raises:
        SourceError: the file does not exist, or the server refuses it.
        SourceContractError: the file changed meanwhile.
        TransientSourceError: the connection broke off; the old file on the server is unchanged.
    """
    target = f"{folder.rstrip('/')}/{payload.name}".removeprefix("./")
    parent, _, name = target.rpartition("/")
    temporary = f"{parent}/" * bool(parent or target.startswith("/"))
    temporary += f".{name}.{uuid.uuid4().hex[:8]}.part"
    shown = f"{connection.server.shown}/{target.lstrip('/')}"
    client = connection.client()
    try:
        with payload.opened() as opened:
            _write(client, opened, temporary, shown)
            with translated_errors(shown):
                _rename(client, temporary, target)
            return {"path": target, "size": opened.size, "md5": opened.digest.hexdigest()}
    except NotThereError:
        raise SourceError(
            f"{shown}: there is no such folder on the server",
            "Create the folder, or check ms.source.uri.",
        ) from None
    except BaseException:
        with suppress(SourceError), translated_errors(shown):
            client.remove(temporary)
        raise


def _write(client: paramiko.SFTPClient, opened: OpenPayload, path: str, shown: str) -> None:
    """Write a new file and check that it is complete."""
    with translated_errors(shown):
        with client.open(path, "wx") as handle:
            handle.set_pipelined(True)
            for block in opened.blocks(_BLOCK):
                handle.write(block)
        size = client.stat(path).st_size
    if size != opened.size:
        raise TransientSourceError(
            f"{shown}: the server has {size} bytes of {opened.size}",
            "Check the disk space and the user's quota on the server.",
        )


def _rename(client: paramiko.SFTPClient, temporary: str, target: str) -> None:
    """Rename over an existing file; without OpenSSH's extension, first move that file away."""
    try:
        client.posix_rename(temporary, target)
    except OSError as error:
        if error.errno is not None:
            raise
        _swap(client, temporary, target)


def _swap(client: paramiko.SFTPClient, temporary: str, target: str) -> None:
    """Replace a file by another one; restore the old file if that fails."""
    aside = f"{temporary}.old"
    try:
        client.rename(target, aside)
    except FileNotFoundError:
        client.rename(temporary, target)
        return
    try:
        client.rename(temporary, target)
    except BaseException:
        client.rename(aside, target)
        raise
    client.remove(aside)
