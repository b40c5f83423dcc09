"""Laws of what databases are told, that need none of them: names, types, conditions."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.databases.statements import MARK
from dil.publishing.warehouse import duckdb, mysql, postgresql, sqlite
from dil.publishing.warehouse.access import dialect_for
from dil.publishing.warehouse.dialect import Dialect, TableColumn, TableName
from dil.publishing.warehouse.rows import SIGNATURE
from dil.text.warehouse_url import read_warehouse_url
from dil.types.warehouse import JSON, TEXT, column_type, holds

URLS = {
    "postgresql": "postgresql://host/db",
    "mysql": "mysql://host/db",
    "duckdb": "duckdb:///never-opened.duckdb",
    "sqlite": "sqlite:///never-opened.db",
}
TYPES = (
    pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), TEXT, pa.binary(),
    pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), JSON,
    pa.decimal128(5, 0), pa.decimal128(10, 0), pa.decimal128(19, 0), pa.decimal128(12, 2),
    pa.decimal128(38, 10),
)  # fmt: skip
names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), min_size=1
)
quickly = settings(max_examples=20)


@pytest.fixture(params=URLS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return dialect_for(read_warehouse_url(URLS[request.param]))


def new_dialect(engine: str) -> Dialect:
    return dialect_for(read_warehouse_url(URLS[engine]))


def asked_for(engine: str, words: str) -> pa.DataType | None:
    """Return the type that a column of these words has when the database is asked."""
    if engine == "postgresql":
        return postgresql._column("c", words, is_required=False).type
    if engine == "duckdb":
        return duckdb._type_of(words)
    if engine == "sqlite":
        return sqlite._type_of(words)
    kind, _, rest = words.partition(" CHARACTER SET")[0].partition("(")
    numbers = [int(each) for each in rest.rstrip(")").split(",") if each]
    precision, scale = (*numbers, None, None)[:2]
    return mysql._type_of(kind, words, precision, scale, numbers[0] if numbers else None)


@quickly
@given(schema=names, name=names)
@pytest.mark.parametrize("engine", URLS)
def test_a_quoted_name_is_the_name_whatever_is_in_it(engine, schema, name) -> None:
    found = new_dialect(engine)
    mark = found.quote("x")[0]
    quoted = found.quote(name)
    assert quoted[0] == quoted[-1] == mark
    inner = quoted[1:-1]
    assert mark not in inner.replace(mark * 2, "")
    assert inner.replace(mark * 2, mark) == name
    assert found.full(TableName(schema, name)) == f"{found.quote(schema)}.{quoted}"
    assert found.full(TableName("", name)) == quoted


@quickly
@given(name=names)
def test_sqlite_knows_a_column_by_its_quoted_name(name) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        cursor = connection.execute(f"SELECT 1 AS {new_dialect('sqlite').quote(name)}")
        assert cursor.description[0][0] == name


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@pytest.mark.parametrize("engine", URLS)
def test_a_column_made_for_a_type_is_one_that_holds_it(engine, data_type) -> None:
    found = new_dialect(engine)
    words = found.type_words(data_type, is_key=False)
    kept = found.kept(data_type)
    has = asked_for(engine, words)
    assert has is not None
    assert holds(has, kept) or (has == TEXT and data_type == JSON)


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_a_type_holds_itself_and_stays_when_it_is_a_column(data_type) -> None:
    assert holds(data_type, data_type)
    if data_type != JSON:
        assert column_type(data_type) == data_type


def test_what_holds_a_type_holds_what_that_holds() -> None:
    for wide, middle, narrow in product(TYPES, repeat=3):
        if holds(wide, middle) and holds(middle, narrow):
            assert holds(wide, narrow), (wide, middle, narrow)


@pytest.mark.parametrize(("wide", "narrow"), [each for each in product(TYPES, repeat=2)
                                              if holds(*each) and TEXT not in each])  # fmt: skip
def test_values_go_into_a_wider_column_and_come_back_as_they_were(wide, narrow) -> None:
    if JSON in {wide, narrow}:
        assert wide == narrow
        return
    bounds = {pa.int16(): 2**15, pa.int32(): 2**31, pa.int64(): 2**63}
    if narrow in bounds:
        values = pa.array([-bounds[narrow], bounds[narrow] - 1, 0, None], narrow)
    else:
        values = pa.nulls(2, narrow)
    assert values.cast(wide).cast(narrow) == values


@pytest.mark.parametrize("engine", ["postgresql", "mysql", "duckdb"])
@pytest.mark.parametrize(("old", "new"), [(pa.int32(), pa.int64()), (pa.int16(), pa.int32()),
                                          (pa.decimal128(5, 0), pa.decimal128(12, 2))])  # fmt: skip
def test_a_column_is_widened_by_a_statement_that_names_it(engine, old, new) -> None:
    found = new_dialect(engine)
    words, table = found.type_words(new, is_key=False), TableName("", 'odd"`name')
    assert holds(new, old)
    statement = found.widen(table, 'odd`"column', words)
    assert statement.startswith(f"ALTER TABLE {found.full(table)} ")
    assert found.quote('odd`"column') in statement
    assert statement.endswith(words)


def test_sqlite_widens_nothing() -> None:
    assert not new_dialect("sqlite").widen(TableName("", "t"), "c", "TEXT")


def test_what_a_column_is_besides_its_type_stays_where_it_is_widened() -> None:
    postgres, other = new_dialect("postgresql"), new_dialect("mysql")
    table = TableName("", "t")
    assert postgres.widen(table, "c", "text", ' COLLATE "C"').endswith('TYPE text COLLATE "C"')
    words = "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
    for default, kept in (
        (" DEFAULT 'x'", " DEFAULT ('x')"),
        (r" DEFAULT 'it''s \\' COMMENT 'y'", r" DEFAULT ('it''s \\') COMMENT 'y'"),
        (" DEFAULT (uuid())", " DEFAULT (uuid())"),
        (" DEFAULT NULL COMMENT ' DEFAULT ''x'''", " DEFAULT NULL COMMENT ' DEFAULT ''x'''"),
    ):
        before = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        statement = other.widen(table, "c", words, before + default)
        assert statement.endswith(f"`c` longtext{before}{kept}")
    assert other.widen(table, "c", "bigint", " DEFAULT '5'").endswith("`c` bigint DEFAULT '5'")


@quickly
@given(values=st.lists(names, min_size=1, max_size=5), column=st.sampled_from([SIGNATURE, "other"]))
@pytest.mark.parametrize("engine", URLS)
def test_a_condition_has_a_mark_for_each_of_its_values(engine, values, column) -> None:
    condition, given_values = new_dialect(engine).any_of(column, values)
    assert condition.count(MARK) == len(given_values)
    assert tuple(given_values[-len(values) :]) == tuple(values)


@pytest.mark.parametrize(("engine", "most"), [("postgresql", "é" * 31 + "x"), ("mysql", "é" * 64)])
def test_names_are_as_long_as_the_database_keeps_them(engine, most) -> None:
    found = new_dialect(engine)
    assert found.holds_name(most)
    assert not found.holds_name(f"{most}x")


def test_nan_and_what_is_out_of_range_is_refused(dialect) -> None:
    column = TableColumn("c", pa.float64(), "double")
    nan = dialect.refusal(column, pa.array([1.0, float("nan")]))
    assert bool(nan) == isinstance(dialect, mysql.MysqlDialect | sqlite.SqliteDialect)
    assert not dialect.refusal(column, pa.array([1.0, None]))
