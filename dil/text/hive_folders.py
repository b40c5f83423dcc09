"""Folders ``column=value`` as Hive names them, which Spark, DuckDB and pyarrow read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from dil.errors import ConversionError

NULL = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_MOST_BYTES = 255


def hive_folder(columns: Sequence[str], texts: Sequence[str | None]) -> str:
    """Return the folder of rows with these values, below the folder of all rows.

    An empty text is written like null: Hive and Delta have no other form for it.

    >>> hive_folder(["day", "shop"], ["2020-01-01", "a/b"])
    'day=2020-01-01/shop=a%2Fb'

    Raises:
        ConversionError: a value is too long for a folder's name.
    """
    parts = []
    for column, text in zip(columns, texts, strict=True):
        part = f"{_quoted(column)}={_quoted(text) if text else NULL}"
        if len(part.encode()) > _MOST_BYTES:
            raise ConversionError(
                f'column "{column}" holds a value that is too long for the name of a folder',
                f"ms.table.partition.fields needs short values: {column}=value has at most"
                f" {_MOST_BYTES} bytes. Leave the column out of it.",
            )
        parts.append(part)
    return "/".join(parts)


def hive_values(folder: str) -> dict[str, str | None]:
    """Return the columns that a folder names, with their values as texts.

    >>> hive_values("lake/day=__HIVE_DEFAULT_PARTITION__/the%3Ashop=a%2Fb")
    {'day': None, 'the:shop': 'a/b'}
    """
    named = (part.partition("=") for part in folder.split("/") if "=" in part)
    return {unquote(column): None if text == NULL else unquote(text) for column, _, text in named}


def _quoted(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)
