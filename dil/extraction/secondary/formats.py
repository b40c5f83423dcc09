"""Reads the rows of one file of any format as JSON values (docs/secondary-input.md)."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import BinaryIO, TypeAlias, cast

from dil.errors import SourceContractError, SourceError
from dil.extraction.secondary.columns import Allowance, Open, Rows, UnfitError
from dil.extraction.secondary.json_lines import read_json_lines
from dil.extraction.secondary.places import InputNotThereError
from dil.extraction.sizes import memory_words
from dil.extraction.streams import located_errors
from dil.storage import Filesystem

log = logging.getLogger(__name__)

Reader: TypeAlias = Callable[[Open, tuple[str, ...], Allowance], Rows]

_BY_EXTENSION = {
    ".avro": "avro",
    ".parquet": "parquet",
    ".orc": "orc",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}
_TEXT_KINDS = frozenset({"json", "csv"})
_BY_MAGIC = {b"Obj\x01": "avro", b"PAR1": "parquet", b"ORC": "orc"}
_MAGIC_BYTES = 4
# Names of files that are still being written, or that only accompany another file.
_TEMPORARY = (".tmp", ".temp", ".crc", ".inprogress", "._copying_", ".crdownload", ".partial")
# The errors that libraries raise for bytes that they do not understand.
_DAMAGED = (
    ValueError, LookupError, ArithmeticError, TypeError, EOFError, RuntimeError, zlib.error,
)  # fmt: skip
_READABLE = "Avro, Parquet and ORC files, JSON lines and CSV (both also .gz) can be read."


def read_rows(
    filesystem: Filesystem,
    path: str,
    columns: tuple[str, ...],
    allowed: Allowance,
    *,
    is_named: bool,
) -> Rows:
    """Yield each row of a file with exactly these columns, in this order, as JSON values.

    All values of CSV are text.

    Args:
        filesystem: The store of the file.
        path: The file.
        columns: Top-level columns; if there are none, each row is an empty object.
        allowed: The remaining limits for reading.
        is_named: Whether the user named this file and not only a folder around it. If true, a file
            of unknown format is an error; if false, it is skipped with a warning.

    Raises:
        SourceContractError: a column is missing, or the file is damaged, of no known format, or
            too long.
        SourceError: the file cannot be read.
        InputNotThereError: the file is gone.
    """
    try:
        kind = _kind(filesystem, path)
        if kind:
            with located_errors(f"{path}: "):
                yield from _reader(kind)(partial(_opened, filesystem, path), columns, allowed)
            return
    except UnfitError as error:
        raise SourceContractError(f"{path} {error}", error.fix) from error
    except MemoryError as error:
        raise _too_large(path, allowed) from error
    except FileNotFoundError as error:
        raise InputNotThereError(f"{path} does not exist") from error
    except OSError as error:
        # Libraries raise OSError for damage as well, without an error number.
        raise (unreadable(path, error) if error.errno else _damaged(path, error)) from None
    except _DAMAGED as error:
        raise _damaged(path, error) from None
    if is_named:
        raise SourceContractError(f"{path} is of no known format", _READABLE)
    log.warning("%s is skipped: its format is not known. %s", path, _READABLE)


def _too_large(path: str, allowed: Allowance) -> SourceContractError:
    given = memory_words(allowed.memory_bytes, "its reader")
    return SourceContractError(
        f"{path} needs more than {given}",
        "The file may be damaged, or made to exhaust memory. If it is sound, name fewer fields,"
        " write it in smaller parts, or raise ms.task.memory.max.bytes.",
    )


def _damaged(path: str, error: Exception) -> SourceContractError:
    # The text of the error may quote rows, and rows may be tokens.
    return SourceContractError(
        f"{path} is damaged, or its format is not the one of its name ({type(error).__name__})",
        f"Publish the file again, or remove it. {_READABLE}",
    )


def unreadable(path: str, error: OSError) -> SourceError:
    """Return the error for a store that refuses to read a path."""
    return SourceError(
        f"{error.filename or path} cannot be read: {error.strerror or type(error).__name__}",
        "Check its permissions, and the path in ms.secondary.input.",
    )


def _kind(filesystem: Filesystem, path: str) -> str:
    """Return a file's format from its name, else from its first bytes; empty if unknown."""
    name = path.rpartition("/")[2].lower()
    if name.endswith(_TEMPORARY):
        return ""
    plain = name.removesuffix(".gz")
    known = _BY_EXTENSION.get(PurePosixPath(plain).suffix, "")
    if known and (plain == name or known in _TEXT_KINDS):
        return known
    with filesystem.open_input(path) as stream:
        magic = stream.read(_MAGIC_BYTES)
    return next((kind for start, kind in _BY_MAGIC.items() if magic.startswith(start)), "")


@contextmanager
def _opened(filesystem: Filesystem, path: str) -> Iterator[BinaryIO]:
    with filesystem.open_input(path) as stream:
        if not path.lower().endswith(".gz"):
            yield stream
            return
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield cast("BinaryIO", unpacked)


def _reader(kind: str) -> Reader:
    if kind == "json":
        return read_json_lines
    # Imported here, because loading the reader of Parquet takes longer than a whole plan may last.
    from dil.extraction.secondary import tables

    return {
        "avro": tables.read_avro,
        "parquet": tables.read_parquet,
        "orc": tables.read_orc,
        "csv": tables.read_csv,
    }[kind]
