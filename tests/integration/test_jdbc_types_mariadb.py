"""Every type of MariaDB comes as it is: values made by hypothesis, written by the server itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dil.errors import SourceContractError
from tests.integration.jdbc_jobs import jdbc, read
from tests.servers.databases import new_database
from tests.servers.mariadb import PASSWORD, MariadbServer

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=50)
MOMENTS = st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 30))  # noqa: DTZ001 - hypothesis wants them so
INSTANTS = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2038, 1, 1))  # noqa: DTZ001 - hypothesis wants them so
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "tinyint": (pa.int32(), st.integers(-128, 127)),
    "tinyint(1)": (pa.int32(), st.integers(-128, 127)),
    "smallint unsigned": (pa.int32(), st.integers(0, 2**16 - 1)),
    "mediumint": (pa.int32(), st.integers(-(2**23), 2**23 - 1)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int unsigned": (pa.int64(), st.integers(0, 2**32 - 1)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "bigint unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False,
                                       allow_subnormal=False)),
    "decimal(20,5)": (
        pa.decimal128(20, 5), st.decimals(places=5, min_value=-(10**14), max_value=10**14)
    ),
    "decimal(9,0) unsigned": (pa.decimal128(9, 0), st.decimals(0, 10**9 - 1, places=0)),
    "bit(1)": (pa.bool_(), st.booleans()),
    "bit(40)": (pa.int64(), st.integers(0, 2**40 - 1)),
    "bit(64)": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "varchar(60) character set utf8mb4": (pa.string(), TEXT),
    "text character set utf8mb4": (pa.string(), TEXT),
    "varbinary(60)": (pa.binary(), st.binary(max_size=60)),
    "blob": (pa.binary(), st.binary(max_size=60)),
    "enum('a','b c')": (pa.string(), st.sampled_from(["a", "b c"])),
    "set('a','b')": (pa.string(), st.sampled_from(["", "a", "b", "a,b"])),
    "uuid": (pa.string(), st.uuids(version=4).map(str)),
    "date": (pa.date32(), st.dates(dt.date(1000, 1, 1))),
    "time(6)": (pa.time64("us"), st.times()),
    "datetime(6)": (pa.timestamp("us"), MOMENTS),
    "timestamp(6) null": (
        pa.timestamp("us", tz="UTC"), INSTANTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))
    ),
    "year": (pa.int32(), st.integers(1901, 2155)),
}  # fmt: skip


@pytest.fixture(scope="module")
def url(mysql_server: MariadbServer) -> Iterator[str]:
    with new_database(mysql_server) as url:
        yield url


@pytest.fixture(scope="module")
def writing(url: str, mysql_server: MariadbServer) -> Iterator[pymysql.Connection]:
    connection = pymysql.connect(
        host="127.0.0.1", port=mysql_server.port, user="admin", password=PASSWORD.encode(),
        database=url.rpartition("/")[2], charset="utf8mb4", autocommit=True,
    )  # fmt: skip
    with connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
        words = (mysql_server.uuid_type if word == "uuid" else word for word in TYPES)
        columns = ", ".join(f"c{at} {word}" for at, word in enumerate(words))
        cursor.execute(f"CREATE TABLE exact (n int, {columns})")
        yield connection


def written(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.lists(st.tuples(*(st.none() | values for _, values in TYPES.values())), min_size=1))
def test_values_come_back_exactly(
    url: str, writing: pymysql.Connection, rows: list[tuple[Any, ...]]
) -> None:
    with writing.cursor() as cursor:
        cursor.execute("DELETE FROM exact")
        places = ", ".join(["%s"] * len(TYPES))
        cursor.executemany(
            f"INSERT INTO exact VALUES (%s, {places})",
            [(at, *map(written, row)) for at, row in enumerate(rows)],
        )
    found = read(jdbc(url), "select * from exact order by n")
    assert [tuple(row.values())[1:] for row in found.to_pylist()] == rows
    assert dict(zip(TYPES, found.schema.types[1:], strict=True)) == {
        word: data_type for word, (data_type, _) in TYPES.items()
    }


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("sum(n) from (select 1 as n union select 2 union select 3) few", Decimal(6)),
        ("cast(1.5 as decimal(65,30))", Decimal("1.5")),
        ("cast('12345678901234567890123456789012345.5' as decimal(65,30))",
         "12345678901234567890123456789012345.5" + "0" * 29),
        ("json_object('a', 1)", '{"a": 1}'),
        ("null", None),
        ("true", 1),
        ("inet6_ntoa(inet6_aton('::1'))", "::1"),
        ("point(1, 2)", b"\x00" * 4 + b"\x01\x01" + b"\x00" * 9 + b"\xf0\x3f" + b"\x00" * 7 + b"@"),
        ("'50%'", "50%"),
    ],
)  # fmt: skip
def test_other_types_keep_their_values(url: str, sql: str, value: object) -> None:
    select, _, rest = sql.partition(" from ")
    found = read(jdbc(url), f"select {select} as v" + (f" from {rest}" if rest else ""))
    assert found.column("v").to_pylist() == [value]


def test_a_date_that_no_calendar_has_is_an_error_or_null(
    url: str, writing: pymysql.Connection
) -> None:
    with writing.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("CREATE TABLE zero (d date, m datetime, t timestamp null)")
        cursor.execute("INSERT INTO zero VALUES ('0000-00-00', '2020-00-01 00:00:00', 0)")
        cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
    with pytest.raises(SourceContractError, match='column "d": "0000-00-00" is a date'):
        read(jdbc(url), "select * from zero")
    nulls = [{"d": None, "m": None, "t": None}]
    assert read(jdbc(url), "select * from zero", nulls_dates=True).to_pylist() == nulls
    by_url = jdbc(url) + "?zeroDateTimeBehavior=CONVERT_TO_NULL"
    assert read(by_url, "select * from zero").to_pylist() == nulls


@pytest.mark.parametrize(
    ("sql", "what", "fix"),
    [
        ("cast(1.1 as float)", "six digits only", "AS DOUBLE"),
        ("cast('30:00:00' as time)", "no time of a day", "AS CHAR"),
        ("cast('-01:00:00' as time)", "no time of a day", "AS CHAR"),
    ],
)
def test_a_value_that_would_lose_something_is_an_error_that_says_what_to_write(
    url: str, sql: str, what: str, fix: str
) -> None:
    with pytest.raises(SourceContractError, match=what) as caught:
        read(jdbc(url), f"select {sql} as v")
    assert fix in caught.value.fix


def test_flags_are_booleans_where_the_url_says_so(url: str, writing: pymysql.Connection) -> None:
    with_flags = jdbc(url) + "?tinyInt1isBit=true"
    sql = "select c1 from exact limit 0"
    assert read(with_flags, sql).num_rows == 0
