"""Names as databases quote them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.jdbc.sql_text import SqlPart, SqlPiece, pieces
from connectors.jdbc.syntax import Kind, syntax_of


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (Kind.POSTGRESQL, '"a""b`c]d"'),
        (Kind.MYSQL, '`a"b``c]d`'),
        (Kind.MARIADB, '`a"b``c]d`'),
        (Kind.SQLITE, '"a""b`c]d"'),
        (Kind.DUCKDB, '"a""b`c]d"'),
        (Kind.SQLSERVER, '[a"b`c]]d]'),
        (Kind.ORACLE, '"a""b`c]d"'),
    ],
)
def test_a_name_is_quoted_as_the_database_writes_it(kind: Kind, written: str) -> None:
    assert syntax_of(kind).quoted('a"b`c]d') == written


@pytest.mark.parametrize(
    ("name", "written"), [("id", '"ID"'), ("Id", '"Id"'), ("DATE", '"DATE"'), ("a b", '"a b"')]
)
def test_small_letters_of_a_driver_are_the_capitals_of_oracle(name: str, written: str) -> None:
    assert syntax_of(Kind.ORACLE).quoted(name) == written


@given(st.sampled_from(Kind), st.sampled_from(["", "ANSI_QUOTES"]), st.text())
def test_a_quoted_name_is_one_name_whatever_it_holds(kind: Kind, mode: str, name: str) -> None:
    syntax = syntax_of(kind, sql_mode=mode)
    quoted = syntax.quoted(name)
    assert pieces(f"select {quoted} x", syntax)[1] == SqlPiece(SqlPart.NAME, quoted, quoted[0])
