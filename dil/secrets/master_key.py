"""Master password files. Source: behaviour.md B2.5."""

from __future__ import annotations

from pathlib import Path


def master_password_files(path: Path, count: int) -> tuple[Path, ...]:
    """Return where master passwords are looked for: ``path``, ``path.1``, ..., ``count`` files."""
    return (path, *(path.with_name(f"{path.name}.{index}") for index in range(1, count)))


def read_master_passwords(path: Path, count: int) -> tuple[str, ...]:
    """Return the first line of ``path``, ``path.1``, ... of those of ``count`` files that exist.

    Raises:
        OSError: a file exists and cannot be read.
        ValueError: a file is not UTF-8 text, or its first line is empty.
    """
    candidates = master_password_files(path, count)
    return tuple(_first_line(candidate) for candidate in candidates if candidate.exists())


def _first_line(path: Path) -> str:
    try:
        line = path.read_text("utf-8").split("\n", 1)[0].removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text") from error
    if not line:
        raise ValueError(f"the first line of {path} is empty")
    return line
