"""Refuses columns whose values Spark's JDBC source would change silently; pure.

Spark reads decimals into a scale that it chooses, times of day in milliseconds, and timestamps in
microseconds. The metadata of Spark's schema has the driver's description of a column.
Source: Spark's JdbcUtils.getSchema and makeGetter, 4.0 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dil.errors import SourceContractError

_DECIMAL = re.compile(r"decimal\(\d+, ?(-?\d+)\)")
_MICROSECONDS = 6


def refuse_lossy(fields: Iterable[Mapping[str, Any]]) -> None:
    """Refuse columns whose values Spark would round or cut.

    Args:
        fields: The fields of a StructType as JSON: ``name``, ``type``, ``metadata``.

    Raises:
        SourceContractError: a column would be rounded or cut.
    """
    for field in fields:
        name, kind, metadata = str(field["name"]), _item(field["type"]), field["metadata"]
        scale = metadata.get("scale")
        decimal = _DECIMAL.fullmatch(kind)
        if decimal and scale is not None and int(decimal[1]) != scale:
            raise _lossy(
                name,
                f"Spark does not keep the scale of its numbers: it would round them to {kind}",
                f"CAST({name} AS DECIMAL(38, 9)) AS {name}, with as many digits as there are, or a"
                " cast to text",
            )
        if metadata.get("logical_time_type"):
            raise _lossy(
                name,
                "Spark would cut its times of day to milliseconds",
                f"CAST({name} AS VARCHAR(18)) AS {name}",
            )
        if kind.startswith("timestamp") and scale is not None and scale > _MICROSECONDS:
            raise _lossy(
                name,
                "Spark would cut its times to microseconds",
                f"CAST({name} AS TIMESTAMP(6)) AS {name}, or a cast to text",
            )


def _item(kind: Any) -> str:  # a type as JSON
    """Return the type; for arrays, the type of the items."""
    found = kind
    while isinstance(found, Mapping) and found.get("type") == "array":
        found = found["elementType"]
    return found if isinstance(found, str) else ""


def _lossy(name: str, what: str, write: str) -> SourceContractError:
    return SourceContractError(f'column "{name}": {what}', f"Write {write} in ms.jdbc.statement.")
