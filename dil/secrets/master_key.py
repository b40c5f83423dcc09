"""Master password files. See rule S3."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO


def master_password_files(path: str, count: int) -> tuple[str, ...]:
    """Return the ``count`` files that may hold master passwords: ``path``, ``path.1``, ..."""
    return (path, *(f"{path}.{index}" for index in range(1, count)))


def read_master_passwords(
    path: str, count: int, opened: Callable[[str], BinaryIO]
) -> tuple[str, ...]:
    """Return the first line of each existing file of ``count`` files: ``path``, ``path.1``, ...

    ``opened`` opens a file for reading, as ``Filesystem.open_input`` does.

    Raises:
        OSError: a file exists and cannot be read.
        ValueError: a file is not UTF-8 text, or its first line is empty.
    """
    found = []
    for name in master_password_files(path, count):
        try:
            with opened(name) as stream:
                data = stream.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            line = data.decode("utf-8").split("\n", 1)[0].removesuffix("\r")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not UTF-8 text") from error
        if not line:
            raise ValueError(f"the first line of {name} is empty")
        found.append(line)
    return tuple(found)
