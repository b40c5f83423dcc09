"""Every type of PostgreSQL comes as it is: values made by hypothesis, written by psycopg."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dil.errors import SourceContractError
from tests.integration.jdbc_jobs import jdbc, read
from tests.servers.databases import new_database
from tests.servers.postgresql import PASSWORD, PostgresqlServer

UTC = dt.UTC
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001 - hypothesis wants them so
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int2": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "int4": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int8": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float4": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float8": (pa.float64(), st.floats(allow_nan=False)),
    "numeric(20,5)": (
        pa.decimal128(20, 5),
        st.decimals(places=5, min_value=-(10**14), max_value=10**14),
    ),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), TEXT),
    "varchar(9)": (pa.string(), st.text(st.sampled_from("aé'\"\\\n€"), max_size=9)),
    "bytea": (pa.binary(), st.binary()),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp": (pa.timestamp("us"), MOMENTS),
    "timestamptz": (
        pa.timestamp("us", tz="UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))
    ),
    "int8[]": (
        pa.list_(pa.int64()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    ),
    "text[]": (pa.list_(pa.string()), st.lists(st.none() | TEXT)),
    "numeric(12,3)[]": (
        pa.list_(pa.decimal128(38, 18)),  # what is declared of items is not told
        st.lists(st.decimals(places=3, min_value=-(10**8), max_value=10**8)),
    ),
    "date[]": (pa.list_(pa.date32()), st.lists(st.dates())),
}  # fmt: skip


@pytest.fixture(scope="module")
def url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    with new_database(postgresql_server) as url:
        yield url


@pytest.fixture(scope="module")
def writing(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, user="admin", password=PASSWORD, autocommit=True) as connection:
        columns = ", ".join(f"c{at} {word}" for at, word in enumerate(TYPES))
        connection.execute(f"CREATE TABLE exact (n int, {columns})".encode())
        yield connection


@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.lists(st.tuples(*(st.none() | values for _, values in TYPES.values())), min_size=1))
def test_values_come_back_exactly(
    url: str, writing: psycopg.Connection, rows: list[tuple[Any, ...]]
) -> None:
    writing.execute("TRUNCATE exact")
    places = ", ".join(f"%s::{word}" for word in TYPES)
    with writing.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO exact VALUES (%s, {places})".encode(),
            [(at, *row) for at, row in enumerate(rows)],
        )
    found = read(jdbc(url), "select * from exact order by n")
    assert [tuple(row.values())[1:] for row in found.to_pylist()] == rows


def test_each_type_has_its_arrow_type(url: str, writing: psycopg.Connection) -> None:
    writing.execute("TRUNCATE exact")
    writing.execute(b"INSERT INTO exact (n, c16, c5) VALUES (1, '{1.5}', 1.5)")
    schema = read(jdbc(url), "select * from exact").schema
    assert dict(zip(TYPES, schema.types[1:], strict=True)) == {
        word: data_type for word, (data_type, _) in TYPES.items()
    }


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("interval '1 mon 2 days 03:04:05.6'", "P1M2DT3H4M5.6S"),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("'{\"a\": [1, 2.50]}'::json", '{"a": [1, 2.50]}'),
        ("'{\"a\": 12345678901234567890.10}'::jsonb", '{"a": 12345678901234567890.10}'),
        ("'10.0.0.1/8'::inet", "10.0.0.1/8"),
        ("'10.0.0.0/8'::cidr", "10.0.0.0/8"),
        ("'08:00:2b:01:02:03'::macaddr", "08:00:2b:01:02:03"),
        ("B'101'", "101"),
        ("int4range(1, 5)", "[1,5)"),
        ("point '(1,2)'", "(1,2)"),
        ("timetz '12:34:56.123456+02'", "12:34:56.123456+02"),
        ("xml '<a/>'", "<a/>"),
        ("'a b'::tsvector", "'a' 'b'"),
        ("row(1, 'x')", "(1,x)"),
        ("money '12.34'", Decimal("12.34")),
        ("4294967295::oid", 4294967295),
        ("'x'::char(3)", "x  "),
        ("'x'::\"char\"", "x"),
        ("'pg_class'::regclass", "pg_class"),
        ("array['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid]",
         ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        ("array[interval '1 day', null]", ["P1D", None]),
        ("array['{\"a\": 1}'::jsonb]", ['{"a": 1}']),
        ("null", None),
        ("12.50::numeric", Decimal("12.50")),
        ("sum(9223372036854775807::int8)", Decimal(9223372036854775807)),
        ("12345678901234567890123456789012345678::numeric",
         Decimal(12345678901234567890123456789012345678)),
        ("1e50::numeric", "1" + "0" * 50),
        ("'NaN'::numeric", "NaN"),
        ("(-1234567)::numeric(5,-2)", Decimal(-1234600)),
        ("1e-30::numeric(40,35)", Decimal("1e-30")),
        ("date '4713-01-01 BC'", -2440550),
        ("timestamp '20000-01-01'", 568971820800000000),
    ],
)  # fmt: skip
def test_types_without_a_counterpart_come_as_text(url: str, sql: str, value: object) -> None:
    column = read(jdbc(url), f"select {sql} as v").column("v")
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    assert column.to_pylist() == [value]


def test_enums_domains_and_composites_come_as_text(url: str, writing: psycopg.Connection) -> None:
    writing.execute("CREATE TYPE mood AS ENUM ('sad', 'so so')")
    writing.execute("CREATE TYPE pair AS (a int, b text)")
    writing.execute("CREATE DOMAIN positive AS int CHECK (value > 0)")
    found = read(
        jdbc(url),
        "select 'so so'::mood m, array['sad'::mood] ms, (1, 'x y')::pair p, 5::positive d",
    )
    assert found.to_pylist() == [{"m": "so so", "ms": ["sad"], "p": '(1,"x y")', "d": 5}]


def test_an_infinite_date_is_an_error_or_null(url: str) -> None:
    sql = "select 'infinity'::date d, '-infinity'::timestamptz t, date '2020-01-01' ok"
    with pytest.raises(SourceContractError, match='column "d": a date is infinity'):
        read(jdbc(url), sql)
    found = read(jdbc(url), sql, nulls_dates=True)
    assert found.to_pylist() == [{"d": None, "t": None, "ok": dt.date(2020, 1, 1)}]


def test_an_array_of_two_dimensions_is_an_error_that_says_what_to_write(url: str) -> None:
    with pytest.raises(SourceContractError, match="several dimensions") as caught:
        read(jdbc(url), "select array[[1,2],[3,4]] as grid")
    assert "to_jsonb" in caught.value.fix
    found = read(jdbc(url), "select to_jsonb(array[[1,2],[3,4]]) as grid")
    assert json.loads(found.column("grid")[0].as_py()) == [[1, 2], [3, 4]]


def test_the_order_of_rows_is_kept_where_columns_are_cast(url: str) -> None:
    found = read(
        jdbc(url),
        "select i, interval '1 day' * i as span from generate_series(1, 5000) i order by i desc",
    )
    assert found.column("i").to_pylist() == list(range(5000, 0, -1))
    assert found.column("span")[0].as_py() == "P5000D"


@pytest.mark.parametrize("value", ["7", "1.5", "'{7}'::int[]", "gen_random_uuid()"])
def test_a_server_that_quotes_all_names_is_refused(url: str, value: str) -> None:
    with pytest.raises(SourceContractError) as caught:
        read(jdbc(f"{url}?options=-c%20quote_all_identifiers%3Don"), f"select {value} as n")
    assert "quote_all_identifiers = off" in caught.value.fix
