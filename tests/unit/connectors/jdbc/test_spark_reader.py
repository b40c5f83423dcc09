"""What Spark is asked to read: values that can only be values, and jobs that cannot be so read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.jdbc import JdbcConnector
from connectors.jdbc.spark_reader import literal
from dil.errors import ConfigError
from dil.model.json import JsonValue
from dil.spi.connector import RequestValues, SparkRead
from tests.integration.jdbc_jobs import DatabaseJob

DB2 = "jdbc:db2://host:50000/shop"
PLACE = '[{"name": "place", "type": "primitive", "value": "shop"}]'


def problems(folder: Path, statement: str, uri: str = DB2, **properties: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        DatabaseJob(folder, uri, statement, ms__jdbc__reader="spark", **properties).job()
    return {problem.key: problem.what for problem in caught.value.problems}


def asked(
    folder: Path, statement: str, uri: str = DB2, *, values: dict[str, JsonValue], **properties: str
) -> SparkRead:
    """Return what Spark is asked with the values of a request."""
    given = {"ms__jdbc__reader": "spark", **properties}
    reader = JdbcConnector.spark_reader(DatabaseJob(folder, uri, statement, **given).job())
    assert reader is not None
    return reader.read(RequestValues(values, {}))


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (None, "NULL"), (True, "TRUE"), (7, "7"), (-7, "(-7)"), (1.5, "1.5"), (1e-9, "1e-09"),
        ("", "''"), ("a'b", "'a''b'"), ("1 or 1=1 --", "'1 or 1=1 --'"), ("Łódź 木", "'Łódź 木'"),
        (float("inf"), "'Infinity'"),
    ],
)  # fmt: skip
def test_a_value_becomes_a_literal_of_any_database(value: JsonValue, sql: str) -> None:
    assert literal(value) == sql


@pytest.mark.parametrize(
    "text", ["a\\", "\\' or 1=1 --", "a\nb", "a\x00", "a\x1ab", "\u2019", "\uff07"]
)
def test_a_text_that_not_all_databases_read_alike_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"U\+[0-9A-F]{4}, which not every database"):
        literal(text)


@given(st.text())
def test_a_text_ends_with_its_last_quote_or_is_refused(text: str) -> None:
    try:
        sql = literal(text)
    except ConfigError:
        return
    assert sql[0] == sql[-1] == "'"
    assert sql[1:-1].replace("''", "") == text.replace("'", "")
    assert "'" not in sql[1:-1].replace("''", "")


def test_the_query_is_a_table_of_its_own_with_the_values_of_the_work_unit(tmp_path: Path) -> None:
    found = asked(
        tmp_path, "select * from t where at >= {{low}} and n in ({{ids}}) -- end",
        "jdbc:sqlite:x",
        values={"low": "2024-01-01", "ids": [1, "o'b"]},
        ms__parameters='[{"name": "low", "value": "2024-01-01"}, {"name": "ids", "value": "1"}]',
    )  # fmt: skip
    assert found.options["dbtable"].split("\n") == [
        "(",
        "select * from t where at >=  '2024-01-01'  and n in ( 1 ,  'o''b' ) -- end",
        ") q",
    ]


def test_a_value_inside_a_text_is_looked_at_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"U\+005C"):
        asked(
            tmp_path, "select '{{a}}' x from t", values={"a": "\\"},
            ms__parameters='[{"name": "a", "value": "1"}]',
        )  # fmt: skip


def test_the_address_is_passed_on_and_named_without_its_secrets(tmp_path: Path) -> None:
    uri = "jdbc:db2://host:50000/{{place}}:user=me;password=secret-1;"
    found = asked(
        tmp_path, "select 1 x from t", uri, values={"place": "shop"}, ms__parameters=PLACE,
        source__conn__username="reader", source__conn__password="secret-2",
    )  # fmt: skip
    assert found.format == "jdbc"
    assert found.options["url"] == "jdbc:db2://host:50000/shop:user=me;password=secret-1;"
    assert found.options["user"] == "reader"
    assert found.secrets["password"].reveal() == "secret-2"
    assert found.location == "jdbc:db2://host:50000/shop"
    assert "secret-" not in repr(found)


@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_spark_reads_all_rows_where_the_server_limits_those_of_a_select(
    tmp_path: Path, kind: str
) -> None:
    found = asked(tmp_path, "select 1 x from t", f"jdbc:{kind}://host/shop", values={})
    assert "sql_select_limit" in found.options["sessionInitStatement"]


def test_a_value_cannot_become_an_option_of_the_driver(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="other characters than letters"):
        asked(
            tmp_path, "select 1 x from t", "jdbc:db2://host/{{place}}",
            values={"place": "shop?socketFactory=evil"}, ms__parameters=PLACE,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("jdbc:teradata://host/DATABASE=d,USER=u,PASSWORD=p", "jdbc:teradata://host/DATABASE=d"),
        ("jdbc:oracle:thin:scott/tiger@//host:1521/s", "jdbc:oracle://host:1521/s"),
        ("jdbc:as400://me:secret@host/lib;naming=sql", "jdbc:as400:host/lib"),
        ("jdbc:h2:mem:x;PASSWORD=p", "jdbc:h2:mem:x"),
    ],
)
def test_messages_name_the_place_only(tmp_path: Path, uri: str, location: str) -> None:
    assert asked(tmp_path, "select 1 x from t", uri, values={}).location == location


def test_the_jars_are_found_beside_the_job_file_and_the_class_is_passed_on(tmp_path: Path) -> None:
    for name in ("db2.jar", "license.jar"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a", "")
    properties = {
        "ms__jdbc__driver__jar": "db2.jar, license.jar", "ms__jdbc__driver__class": "com.ibm.Driver"
    }  # fmt: skip
    job = DatabaseJob(tmp_path, DB2, "select 1 x", ms__jdbc__reader="spark", **properties).job()
    reader = JdbcConnector.spark_reader(job)
    assert reader is not None
    assert reader.jars == (str(tmp_path / "db2.jar"), str(tmp_path / "license.jar"))
    assert reader.read(RequestValues({}, {})).options["driver"] == "com.ibm.Driver"


def test_what_is_no_jar_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.jar, which is no jar or does not exist"):
        asked(tmp_path, "select 1 x from t", values={}, ms__jdbc__driver__jar="gone.jar")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("delete from t", "is not one query"),
        ("select 1; select 2", "is not one query"),
        ("select 'a", "has a ' without its counterpart"),
        ("select 'it\\\\'s {{a}}'", "has a ' without its counterpart"),
        ("select 'a\\\\' , '{{a}}'", "has a backslash next to variables"),
        ("select `a'` , {{a}} , '", "has ` next to variables"),
        ("select `a` from t where x = {{a}}", "has ` next to variables"),
        ("select 1 # {{a}}", "has # next to variables"),
        ("select $x$ {{a}} $x$", "has $x$ next to variables"),
        ("select [a] from t where x = {{a}}", "has [ next to variables"),
        ("select {{a}} -- why", "has a comment next to variables"),
        ("select q'[it's]' , {{a}}", "has a text of the form q'...'"),
    ],
)
def test_a_statement_of_which_databases_think_differently_is_refused(
    tmp_path: Path, statement: str, what: str
) -> None:
    assert problems(tmp_path, statement)["ms.jdbc.statement"].startswith(what)


def test_without_variables_a_statement_may_be_of_any_dialect(tmp_path: Path) -> None:
    found = asked(tmp_path, "select `a`, '\\\\d' from t -- why", values={})
    assert "select `a`, '\\d' from t -- why\n)" in found.options["dbtable"]


def test_pages_and_ranges_do_not_go_with_one_query_for_each_work_unit(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "select * from t", ms__pagination='{"initialvalues": [0, 10]}',
        ms__session__key__field='{"name": "id", "initValue": "0"}',
        ms__jdbc__partition__column="id", ms__jdbc__invalid__dates="null",
        ms__publish__mode="replace",
    )  # fmt: skip
    assert set(found) == {
        "ms.pagination", "ms.session.key.field", "ms.jdbc.partition.column",
        "ms.jdbc.invalid.dates",
    }  # fmt: skip
    assert all("ms.jdbc.reader=spark" in what for what in found.values())


def test_an_address_of_no_database_is_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "select 1 x", "postgresql://host/x")
    assert found["ms.source.uri"] == "is no address of a database"


def test_a_jar_without_this_reader_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"ms\.jdbc\.driver\.jar only has an effect with ms\.jdbc\.reader=spark"
    ):
        DatabaseJob(tmp_path, "jdbc:sqlite:a", "select 1", ms__jdbc__driver__jar="a.jar").job()


def test_a_look_says_that_only_a_run_reads_by_spark(tmp_path: Path) -> None:
    report = DatabaseJob(tmp_path, DB2, "select 1 x from t", ms__jdbc__reader="spark").run()
    assert "ms.jdbc.reader is spark, and only a run reads with Spark" in report.failures[0].error
