"""How values and names are written in statements."""

from __future__ import annotations

import sqlite3

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from dil.databases.statements import (
    MARK,
    quoted,
    with_numbers,
    with_percents,
    with_questions,
)

STATEMENT = f"SELECT {MARK}, '50%' FROM t WHERE a LIKE {MARK}"
# What a name may hold; a NUL is what stands for a value.
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


def test_a_mark_becomes_the_placeholder_of_the_driver() -> None:
    assert with_percents(STATEMENT) == "SELECT %s, '50%%' FROM t WHERE a LIKE %s"
    assert with_questions(STATEMENT) == "SELECT ?, '50%' FROM t WHERE a LIKE ?"
    assert with_numbers(STATEMENT) == "SELECT $1, '50%' FROM t WHERE a LIKE $2"


def test_a_statement_without_values_is_left_alone() -> None:
    assert with_questions("SELECT '%?$1'") == with_numbers("SELECT '%?$1'") == "SELECT '%?$1'"


def test_a_quote_in_a_name_is_doubled() -> None:
    assert quoted('a"b`c') == '"a""b`c"'
    assert quoted('a"b`c', "`") == '`a"b``c`'
    assert quoted("a[b]c", "[", "]") == "[a[b]]c]"


@given(names)
def test_a_database_reads_a_quoted_name_as_it_was(name: str) -> None:
    statement = f"SELECT 1 AS {quoted(name)}"
    connection = sqlite3.connect(":memory:")
    assert connection.execute(statement).description[0][0] == name
    connection.close()
    assert duckdb.execute(statement).description[0][0] == name
