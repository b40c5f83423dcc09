"""Files in a folder whose list does not say what its entries are."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Any

import paramiko

from connectors.sftp.listing import listed_files

KINDS = {"/in/a": stat.S_IFREG, "/in/b": stat.S_IFDIR, "/in": stat.S_IFDIR}


def attributes(name: str, mode: int | None) -> paramiko.SFTPAttributes:
    found = paramiko.SFTPAttributes()
    found.filename, found.st_mode = name, mode
    found.st_size, found.st_mtime = 1, 1
    return found


class Client:
    """A server that tells the kind of an entry only by its status; ``c`` is gone by then."""

    def stat(self, path: str) -> paramiko.SFTPAttributes:
        if path not in KINDS:
            raise FileNotFoundError(2, path)
        return attributes(path, KINDS[path])

    def listdir_iter(self, path: str) -> Iterator[paramiko.SFTPAttributes]:
        assert path == "/in"
        yield from (attributes(name, None) for name in "abc")


def test_an_entry_of_no_kind_is_a_file_if_its_status_says_so() -> None:
    client: Any = Client()
    found = listed_files(client, "/in", "sftp://h/in", wildcards=False)
    assert [each.path for each in found] == ["/in/a"]
