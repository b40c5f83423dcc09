"""Converts Parquet files to actions of a Delta transaction.

Source: the Delta transaction protocol, "Add File and Remove File", "Partition Value Serialization".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from deltalake import Schema
from deltalake.transaction import AddAction, RemoveAction

from dil.model.dataset import Commit, PublishedFile
from dil.types.table_formats import unfit


def add_action(
    path: str,
    file: PublishedFile,
    stats: str,
    values: Mapping[str, str | None],
    commit: Commit,
) -> AddAction:
    """Return the action that adds a file; ``path`` is relative to the table and not escaped.

    ``stats`` is a text of ``delta_statistics``.
    """
    return AddAction(
        path=path,
        size=file.bytes,
        partition_values=values,
        modification_time=commit.system_time,
        data_change=not commit.is_compaction,
        stats=stats,
    )


def remove_action(path: str, commit: Commit) -> RemoveAction:
    """Return the action that removes a file from the table; the file itself stays."""
    return RemoveAction(
        path, data_change=not commit.is_compaction, deletion_timestamp=commit.system_time
    )


def partition_values(table: Schema, texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the values of partition columns in Delta's own text form.

    A value that a reader cannot parse as the column's type would make the whole table unreadable.

    Raises:
        WriteError: the column's type cannot distinguish files, or the text is not a value of that
            type.
    """
    kinds = {field.name: field.type for field in pa.schema(table.to_arrow())}
    return {name: _value(name, kinds[name], text) for name, text in texts.items()}


def _value(name: str, kind: pa.DataType, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _serialized(kind, text)
    except (ValueError, ArithmeticError) as error:
        raise unfit(name, kind, f'by which files cannot be distinguished as "{text}"') from error


def _serialized(kind: pa.DataType, text: str) -> str:
    """Return a value's text in the one form that readers of Delta accept."""
    if pa.types.is_integer(kind):
        return str(pa.scalar(int(text), kind).as_py())
    if pa.types.is_decimal(kind):
        value = Decimal(text)
        exact = value.quantize(Decimal(1).scaleb(-kind.scale))
        if exact != value or len(exact.as_tuple().digits) > kind.precision:
            raise InvalidOperation(text)
        return format(exact, "f")
    if pa.types.is_date(kind):
        return dt.date.fromisoformat(text).isoformat()
    is_text = pa.types.is_string(kind) or pa.types.is_string_view(kind)
    if (is_text and text) or (pa.types.is_boolean(kind) and text in {"true", "false"}):
        return text
    raise ValueError(text)
