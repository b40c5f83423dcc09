"""Placeholders in SQL: what is bound, what is put into a text, what may be part of a name."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.jdbc.engines.postgresql import literal
from connectors.jdbc.sql_text import SqlTextError, pieces, statements
from connectors.jdbc.statement import Statement
from connectors.jdbc.syntax import Kind, syntax_of
from dil.errors import ConfigError
from dil.model.json import JsonValue


def bound(
    sql: str, kind: Kind = Kind.SQLITE, **variables: JsonValue
) -> tuple[str, list[JsonValue]]:
    values: list[JsonValue] = []

    def bind(value: JsonValue) -> str:
        values.append(value)
        return "?"

    text = Statement(sql, syntax_of(kind)).bound(variables, bind)
    return " ".join(text.split()), values


def test_a_value_that_stands_alone_is_bound() -> None:
    assert bound("select * from t where id > {{low}}", low="1 or 1=1") == (
        "select * from t where id > ?", ["1 or 1=1"]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select * from t where id in ({{v}})", "1, 2,-3"),
        ("select * from t where id in (0, {{v}})", "1,2"),
        ("select * from t where name in ({{v}})", "'a','it''s'"),
        ("select * from t where name in ({{v}})", "'a'"),
        ("select * from t where {{v}}", "status = 'A'"),
        ("select * from t where id > 1 and ({{v}}) order by id", "a is null"),
        ("select * from t where at between 1 and 2 and {{v}}", "a = 1"),
        ("select * from t order by {{v}}", "id"),
        ("select a, count(*) from t group by {{v}}", "a"),
    ],
)
def test_a_text_that_would_be_sql_in_its_place_is_refused(sql: str, value: str) -> None:
    with pytest.raises(ConfigError):
        bound(sql, v=value)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("select * from t where name in ({{v}})", "Smith, John"),
        ("select * from t where name = {{v}}", "1,2"),
        ("select * from t where at between 1 and {{v}}", "2024-01-01 00:00:00"),
        ("select * from t where at between f(1, 'and') and {{v}} and b", "2024-01-01 00:00:00"),
        ("select * from t where {{v}}", "true"),
        ("select * from t where {{v}} = name", "a = b"),
        ("select * from t where a and {{v}} > b", "x y"),
        ("select * from t order by id limit {{v}}", "10"),
        ("select * from t order by {{v}}", 1),
    ],
)
def test_a_text_that_would_be_a_value_in_its_place_is_bound(sql: str, value: JsonValue) -> None:
    assert bound(sql, v=value)[1] == [value]


def test_a_value_inside_a_text_is_put_in_with_its_quotes_doubled() -> None:
    sql, values = bound("select '{{a}} and {{b}}'", a="it's", b="' or ''='")
    assert sql == "select 'it''s and '' or ''''='''"
    assert values == []


def test_backslashes_inside_a_text_of_mysql_are_doubled() -> None:
    assert bound("select '{{a}}'", Kind.MYSQL, a="\\' or 1=1 -- ")[0] == (
        "select '\\\\'' or 1=1 -- '"
    )
    no_escapes = syntax_of(Kind.MYSQL, sql_mode="NO_BACKSLASH_ESCAPES")
    text = Statement("select '{{a}}'", no_escapes).bound({"a": "\\"}, str)
    assert text == "select '\\'\n"


def test_a_double_quoted_text_of_mysql_is_a_text_and_elsewhere_a_name() -> None:
    assert bound('select "{{a}}"', Kind.MYSQL, a='x" y')[0] == 'select "x"" y"'
    with pytest.raises(ConfigError, match="part of a name"):
        bound('select "{{a}}"', Kind.POSTGRESQL, a='x" y')
    with pytest.raises(ConfigError, match="part of a name"):
        Statement('select "{{a}}"', syntax_of(Kind.MYSQL, sql_mode="ANSI_QUOTES")).bound(
            {"a": 'x" y'}, str
        )


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("select * from sales_{{a}}", "select * from sales_2020"),
        ("select * from {{a}}.t", "select * from 2020.t"),
        ("select t.{{a}} from t", "select t.2020 from t"),
        ('select * from "{{a}}"', 'select * from "2020"'),
        ("select * from {{a}}", "select * from 2020"),
        ("select * from x join {{a}} on true", "select * from x join 2020 on true"),
    ],
)
def test_a_part_of_a_name_is_put_in_as_it_is(sql: str, written: str) -> None:
    assert bound(sql, a="2020") == (written, [])


@pytest.mark.parametrize("value", ["a b", "a;b", "a-b", 'a"b', "", "a\n", "é"])
def test_a_part_of_a_name_with_other_characters_fails(value: str) -> None:
    with pytest.raises(ConfigError, match="part of a name"):
        bound("select * from sales_{{a}}", a=value)


def test_a_text_behind_from_that_is_no_name_is_bound() -> None:
    assert bound("select * from {{a}}", a="t; drop table t") == (
        "select * from ?", ["t; drop table t"]
    )  # fmt: skip


@pytest.mark.parametrize(
    "sql",
    ["select extract(day from {{a}})", "select trim(both 'x' from {{a}})",
     "select 1 where b is distinct from {{a}}", "select 1 where b is not distinct from {{a}}"],
)  # fmt: skip
def test_a_from_that_names_no_table_takes_a_bound_value(sql: str) -> None:
    assert bound(sql, a="abc")[1] == ["abc"]


def test_placeholders_in_comments_stay_as_they_are() -> None:
    sql = "select 1 -- since {{a}}\n/* {{a}} */"
    assert bound(sql)[0] == "select 1 -- since {{a}} /* {{a}} */"


def test_a_comment_that_mysql_runs_is_refused() -> None:
    with pytest.raises(SqlTextError, match="which MySQL runs"):
        pieces("select /*! 1 */", syntax_of(Kind.MYSQL))


def test_dollar_quotes_hold_values_without_dollars() -> None:
    assert bound("select $q$ {{a}} $q$", Kind.POSTGRESQL, a="it's")[0] == "select $q$ it's $q$"
    with pytest.raises(ConfigError, match="dollar"):
        bound("select $q$ {{a}} $q$", Kind.POSTGRESQL, a="$q$; drop table t; $q$")


def test_escapes_count_in_the_texts_of_postgresql_that_have_them() -> None:
    assert bound("select E'{{a}}'", Kind.POSTGRESQL, a="\\'")[0] == "select E'\\\\'''"
    assert bound("select '\\', {{a}}", Kind.POSTGRESQL, a="x")[1] == ["x"]


def test_a_variable_without_a_value_is_an_error_and_never_null() -> None:
    with pytest.raises(ConfigError, match=r"needs \{\{cursor\}\}, which has no value"):
        bound("select * from t where id > {{cursor}}")


def test_a_list_is_bound_value_by_value() -> None:
    assert bound("select 1 where a in ({{ids}})", ids=[1, "x'"])[1] == [1, "x'"]
    with pytest.raises(ConfigError, match="empty list"):
        bound("select 1 where a in ({{ids}})", ids=[])


@pytest.mark.parametrize(
    ("sql", "count"),
    [("select 1", 1), ("select 1;", 1), ("select 1; -- end", 1), ("select ';'", 1),
     ("select 1; select 2", 2), ("/* ; */ select 1", 1), ("", 0), ("{{x}}; {{y}}", 2)],
)  # fmt: skip
def test_statements_are_counted_outside_of_texts_and_comments(sql: str, count: int) -> None:
    assert statements(pieces(sql, syntax_of(Kind.SQLITE))) == count


def test_the_semicolon_at_the_end_is_left_out() -> None:
    assert bound("select 1 ; -- end")[0] == "select 1 -- end"
    assert bound("select 1; /* end */ ;\n")[0] == "select 1 /* end */"


@pytest.mark.parametrize(
    ("sql", "reads"),
    [("select 1", True), ("(select 1) union (select 2)", True), ("insert into t values (1)", False),
     ("with a as (select 1) select * from a", True),
     ("with a as (delete from t returning *) select * from a", False),
     ("create table t (a int)", False), ("-- insert\nselect 1", True), ("call p()", False)],
)  # fmt: skip
def test_queries_are_told_from_statements_that_change_something(sql: str, reads: bool) -> None:
    assert Statement(sql, syntax_of(Kind.POSTGRESQL)).reads is reads


@given(st.text(), st.integers() | st.none() | st.text() | st.booleans())
def test_no_value_ever_becomes_sql(inside: str, alone: JsonValue) -> None:
    """SQLite itself tells what became of each value."""
    values: list[JsonValue] = []

    def bind(value: JsonValue) -> str:
        values.append(str(value) if isinstance(value, int) else value)
        return "?"

    statement = Statement("select '{{a}}', {{b}} --'{{a}}", syntax_of(Kind.SQLITE))
    try:
        sql = statement.bound({"a": inside, "b": alone}, bind)
    except ConfigError:
        assert "\x00" in inside
        return
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            row = connection.execute(sql, values).fetchone()
        except UnicodeEncodeError:
            return
    connection.close()
    assert row == (inside, values[0])


@given(st.text())
def test_a_literal_of_postgresql_is_one_text(value: str) -> None:
    if "\x00" in value:
        with pytest.raises(ConfigError):
            literal(value)
        return
    cut = pieces(f"select {literal(value)} x", syntax_of(Kind.POSTGRESQL))
    assert [piece.text for piece in cut] == ["select ", literal(value), " x"]


@pytest.mark.parametrize(
    ("sql", "whole"),
    [
        ("select * from t order by k limit 3", "select * from t"),
        ("select * from t limit {{size}};", "select * from t"),
        ("select 'order by' from t ORDER\nBY k -- limit", "select 'order by' from t"),
        ("select row_number() over (order by k) from t order by 1", "select row_number() over"
         " (order by k) from t"),
        ("with a as (select 1 order by 1 limit 2) select * from a", None),
        ('select "order by", t.limit, limits from t', None),
        ("select * from t /* order by k */ where k > {{limit}}", None),
        ("show tables", None),
    ],
)  # fmt: skip
def test_a_query_can_be_had_without_its_order_and_limit(sql: str, whole: str | None) -> None:
    found = Statement(sql, syntax_of(Kind.MYSQL)).unlimited
    assert (found and found.strip()) == whole


@pytest.mark.parametrize(
    ("sql", "whole"),
    [
        ("select top 10 k from t order by k", "select k from t"),
        ("SELECT TOP (10) PERCENT WITH TIES k FROM t ORDER BY k", "SELECT k FROM t"),
        ("select distinct top ({{size}}) [top 5] from t order by 1",
         "select distinct [top 5] from t"),
        ("select k from t order by k offset 0 rows fetch next 9 rows only", "select k from t"),
        ("select k from (select top 5 k from u) t order by k",
         "select k from (select top 5 k from u) t"),
        ("select top 10 k from t", "select k from t"),
        ("select top 1 k from t union all select 2 order by 1", None),
        ("select 2 union all select top 1 k from t order by 1", None),
        ("with a as (select 1 as k) select top 10 k from a order by k", None),
        ("select k from t", None),
    ],
)  # fmt: skip
def test_a_query_of_sql_server_can_be_had_without_its_top(sql: str, whole: str | None) -> None:
    found = Statement(sql, syntax_of(Kind.SQLSERVER)).unlimited
    assert (found and " ".join(found.split())) == whole


def test_a_query_of_oracle_can_be_had_without_its_fetch() -> None:
    sql = "select k from t order by k offset 5 rows fetch next 9 rows with ties"
    assert Statement(sql, syntax_of(Kind.ORACLE)).unlimited == "select k from t "


@pytest.mark.parametrize(
    ("sql", "groups"),
    [("select a, max(b) from t group by a", True), ("select distinct a from t", True),
     ("select a from t union select b from u", True),
     ("select a, 'group by' from t order by over_all", False)],
)  # fmt: skip
def test_a_statement_tells_whether_it_groups(sql: str, groups: bool) -> None:
    assert Statement(sql, syntax_of(Kind.POSTGRESQL)).groups is groups
