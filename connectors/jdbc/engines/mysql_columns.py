"""Chooses the type of each column of a MySQL or MariaDB result; values come as text or bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from connectors.jdbc.columns import DecimalColumn, typed
from connectors.jdbc.engine import Login
from connectors.jdbc.failures import unfit

if TYPE_CHECKING:
    import pyarrow as pa

# Type codes of the protocol.
_DECIMAL, _TINY, _SHORT, _LONG, _FLOAT, _DOUBLE = 0, 1, 2, 3, 4, 5
_TIMESTAMP, _LONGLONG, _INT24, _DATE, _TIME, _DATETIME, _YEAR = 7, 8, 9, 10, 11, 12, 13
_NEWDATE, _BIT, _JSON, _NEWDECIMAL = 14, 16, 245, 246
VECTOR = 242  # of MySQL 9; the bytes of its numbers
_NULL, _NO_CHARSET = 6, 63
_UNSIGNED = 32
_INT, _LONG_INT = 32, 64  # bits of Arrow's types
_INTEGERS = {_TINY: 8, _SHORT: 16, _INT24: 24, _LONG: 32, _LONGLONG: 64, _YEAR: 16}
_NO_DATE = r"^0000-|-00"
_IN_A_DAY = r"^([01][0-9]|2[0-3]):"

Read = Callable[[Sequence[Any]], "pa.Array"]
_texts = typed("string")


class MysqlColumn:
    """One column of a result.

    Args:
        field: The protocol's description of the column: name, type_code, flags, length, scale.
        login: The settings of the connection. If its ``nulls_dates`` is true, impossible dates
            become null.
    """

    def __init__(self, field: Any, login: Login) -> None:  # a field of PyMySQL
        self._name = str(field.name)
        self._nulls_dates = login.nulls_dates or login.address.nulls_dates
        self.read: Read = self._reader(field, is_flag=login.address.has_flags)

    def _reader(self, field: Any, *, is_flag: bool) -> Read:  # a field of PyMySQL
        code, is_unsigned = field.type_code, bool(field.flags & _UNSIGNED)
        if code == _NULL:
            return typed("null")
        if code in {_DECIMAL, _NEWDECIMAL}:
            return self._decimals(field, is_unsigned=is_unsigned)
        if code == _TINY and is_flag and field.length == 1:
            return self._flags
        if code in _INTEGERS:
            bits = _INTEGERS[code] + is_unsigned
            return _cast_to("int32" if bits <= _INT else "int64" if bits <= _LONG_INT else "uint64")
        if code == _BIT:
            return _bit if field.length == 1 else _bits(field.length)
        readers: dict[int, Read] = {
            _FLOAT: self._floats,
            _DOUBLE: _cast_to("double"),
            _DATE: self._dates("date32"),
            _NEWDATE: self._dates("date32"),
            _DATETIME: self._dates("timestamp[us]"),
            _TIMESTAMP: self._instants,
            _TIME: self._times,
        }
        is_bytes = field.charsetnr == _NO_CHARSET and code != _JSON
        return readers.get(code, typed("binary") if is_bytes else _texts)

    def _decimals(self, field: Any, *, is_unsigned: bool) -> Read:  # a field of PyMySQL
        # The length includes the sign and the point.
        digits = field.length - (not is_unsigned) - (field.scale > 0)
        column = DecimalColumn(digits, field.scale)
        return lambda values: column.read(_texts(values))

    def _flags(self, values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        if not set(values) <= {"0", "1", None}:
            raise unfit(
                self._name,
                "tinyInt1isBit is on, and a tinyint(1) is neither 0 nor 1",
                "Leave tinyInt1isBit out of ms.source.uri; the column is an int then.",
            )
        return pa.array([None if value is None else value == "1" for value in values], pa.bool_())

    def _floats(self, values: Sequence[Any]) -> pa.Array:
        if any(value is not None for value in values):
            raise unfit(
                self._name,
                "is a FLOAT, of which the server gives six digits only",
                f"Write CAST({self._name} AS DOUBLE) AS {self._name} in ms.jdbc.statement.",
            )
        return _texts(values).cast("float")

    def _dates(self, word: str) -> Read:
        return lambda values: self._known(_texts(values)).cast(word)

    def _instants(self, values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        local = self._known(_texts(values)).cast(pa.timestamp("us"))
        return local.cast(pa.timestamp("us", tz="UTC"))

    def _known(self, texts: pa.Array) -> pa.Array:
        """Return texts of dates; impossible dates such as 0000-00-00 become null or an error."""
        import pyarrow.compute as pc

        bad = pc.match_substring_regex(texts, _NO_DATE)
        if not pc.any(bad).as_py():
            return texts
        if self._nulls_dates:
            return pc.if_else(bad, None, texts)
        raise unfit(
            self._name,
            f'"{texts.filter(bad)[0].as_py()}" is a date that no calendar has',
            f"Write nullif({self._name}, 0) in ms.jdbc.statement, or set"
            " ms.jdbc.invalid.dates=null.",
        )

    def _times(self, values: Sequence[Any]) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = _texts(values)
        fits = pc.match_substring_regex(texts, _IN_A_DAY)
        if pc.all(fits).as_py() is False:
            raise unfit(
                self._name,
                f'"{texts.filter(pc.invert(fits))[0].as_py()}" is no time of a day',
                f"Write CAST({self._name} AS CHAR) AS {self._name} in ms.jdbc.statement.",
            )
        moments = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))
        return moments.cast(pa.time64("us"))


def _cast_to(word: str) -> Read:
    return lambda values: _texts(values).cast(word)


def _bit(values: Sequence[Any]) -> pa.Array:
    return typed("bool")([None if value is None else any(value) for value in values])


def _bits(length: int) -> Read:
    make = typed("uint64" if length == _LONG_INT else "int64")

    def read(values: Sequence[Any]) -> pa.Array:
        return make([None if value is None else int.from_bytes(value, "big") for value in values])

    return read
