"""What errors of databases mean, by number, SQLSTATE, result code, class or words."""

from __future__ import annotations

import sqlite3
import ssl
from pathlib import Path
from types import ModuleType

import duckdb as driver_of_duckdb
import pytest
from pymysql import err

from dil.databases import duckdb, mysql, postgresql, sqlite
from dil.databases.faults import AWAY, Fault, LoginProperties

NAMES = LoginProperties("a.url", "a.user", "a.password")


# MySQL and MariaDB


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        # What state stores and warehouses, and the JDBC connector, each knew alone.
        (Fault.LOST, (0, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006,
                      2013, 2014, 2055, 4031)),
        (Fault.UNREACHABLE, (2002, 2003, 2005)),
        (Fault.TOO_MANY, (1040, 1203, 1226)),
        (Fault.STARTING, (3032,)),
        (Fault.LOGIN, (1045, 1130, 1251, 1698, 1862, 3118, 3955, 4151)),
        (Fault.NO_DATABASE, (1049,)),
        (Fault.NO_DATABASE_RIGHT, (1044,)),
        (Fault.OPTIONS, (2026,)),
        (Fault.TLS_ONLY, (3159,)),
        (Fault.HOST_BLOCKED, (1129,)),
        (Fault.CONFLICT, (1213,)),
        (Fault.LOCKED, (1205, 3572)),
        (Fault.CHANGED, (1020, 1412)),
        (Fault.EXISTS, (1050, 1060, 1061)),
        (Fault.DUPLICATE, (1062,)),
        (Fault.TIMED_OUT, (1317, 1969, 3024)),
        (Fault.DISK_FULL, (1021,)),
        (Fault.TOO_LARGE, (1153,)),
        (Fault.NO_PRIMARY_KEY, (1173, 3098, 3750)),
        (Fault.UNSAFE_BINLOG, (1665,)),
        (Fault.DENIED, (1142, 1143, 1227, 1370)),
        (Fault.READ_ONLY, (1290, 1792, 1836)),
        (Fault.NO_TABLE, (1146,)),
        (Fault.NO_COLUMN, (1054,)),
        (Fault.DOES_NOT_FIT, (1406,)),
    ],
)  # fmt: skip
def test_a_number_of_mysql_has_one_meaning(fault: Fault, codes: tuple[int, ...]) -> None:
    for code in codes:
        assert mysql.fault_of(err.OperationalError(code, "words")) is fault, code


def test_a_number_that_is_not_known_goes_by_its_sqlstate_and_class() -> None:
    of_value = err.OperationalError(1690, "out of range")
    of_value.sqlstate = "22003"
    assert mysql.fault_of(of_value) is Fault.REFUSED
    assert mysql.fault_of(err.ProgrammingError(1064, "syntax")) is Fault.REFUSED
    assert mysql.fault_of(err.OperationalError(9999, "new")) is Fault.OTHER
    assert mysql.fault_of(err.InternalError("Packet sequence number wrong")) is Fault.OTHER
    assert mysql.fault_of(err.InterfaceError("socket is gone")) is Fault.LOST
    assert mysql.fault_of(ConnectionResetError(104, "reset")) is Fault.LOST


def test_a_certificate_that_is_not_trusted_is_no_server_that_is_away() -> None:
    said = "Can't connect ([SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate)"
    assert mysql.fault_of(err.OperationalError(2003, said)) is Fault.UNTRUSTED
    assert mysql.fault_of(ssl.SSLError(1, "CERTIFICATE_VERIFY_FAILED")) is Fault.UNTRUSTED
    assert "a.url" in mysql.advice(NAMES)[Fault.UNTRUSTED]


def test_what_mysql_said_is_one_line() -> None:
    assert mysql.text_of(err.OperationalError(1064, "near\n  'x'")) == "near 'x'"
    assert mysql.text_of(err.InterfaceError(0, "")) == "the connection is closed"
    assert mysql.code_of(err.OperationalError(1064, "x")) == 1064
    assert mysql.code_of(err.InternalError("words")) is None


# PostgreSQL


@pytest.mark.parametrize(
    ("fault", "states"),
    [
        (Fault.LOST, ("08000", "08006", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05")),
        (Fault.LOGIN, ("28000", "28P01")),
        (Fault.NO_DATABASE, ("3D000",)),
        (Fault.CONFLICT, ("40001", "40P01")),
        (Fault.LOCKED, ("55P03",)),
        (Fault.CHANGED, ("XX000",)),
        (Fault.EXISTS, ("42P06", "42P07", "42701", "42710")),
        (Fault.DUPLICATE, ("23505",)),
        (Fault.TIMED_OUT, ("57014",)),
        (Fault.DISK_FULL, ("53100",)),
        (Fault.TOO_MANY, ("53300",)),
        (Fault.NO_RESOURCES, ("53000", "53200", "53400")),
        (Fault.DENIED, ("42501",)),
        (Fault.READ_ONLY, ("25006",)),
        (Fault.NO_SCHEMA, ("3F000",)),
        (Fault.NO_TABLE, ("42P01",)),
        (Fault.NO_COLUMN, ("42703",)),
        (Fault.DOES_NOT_FIT, ("22001",)),
        (Fault.REFUSED, ("0A000", "21000", "22012", "23502", "2F003", "34000", "38000", "39000",
                         "42601", "44000")),
        (Fault.OTHER, ("58030", "XX001", "25001")),
    ],
)  # fmt: skip
def test_a_sqlstate_has_one_meaning(fault: Fault, states: tuple[str, ...]) -> None:
    for state in states:
        assert postgresql.fault_of(state, "words") is fault, state
        assert postgresql.fault_of_statement(state, "words") is fault, state


SERVER = 'connection to server at "db", port 5432 failed: '


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault.UNREACHABLE, f"{SERVER}Connection refused\n\tIs the server running?"),
        (Fault.UNREACHABLE, f"{SERVER}timeout expired"),
        (Fault.UNREACHABLE, 'could not translate host name "tls.invalid" to address: unknown'),
        (Fault.UNREACHABLE, f"{SERVER}server closed the connection unexpectedly"),
        (Fault.UNREACHABLE, 'connection to server at "ssl.role ", port 1 failed: no such device'),
        (Fault.STARTING, f"{SERVER}FATAL:  the database system is starting up"),
        (Fault.STARTING, f"{SERVER}FATAL:  the database system is shutting down"),
        (Fault.TOO_MANY, f"{SERVER}FATAL:  sorry, too many clients already"),
        (Fault.TOO_MANY, f"{SERVER}FATAL:  no more connections allowed (max_client_conn)"),
        (Fault.TOO_MANY, f"{SERVER}FATAL:  remaining connection slots are reserved"),
        (Fault.LOGIN, f'{SERVER}FATAL:  password authentication failed for user "ssl"'),
        (Fault.LOGIN, f'{SERVER}FATAL:  role "x" does not exist'),
        (Fault.LOGIN, f'{SERVER}FATAL:  permission denied for database "x"'),
        (Fault.NO_ENTRY, f'{SERVER}FATAL:  no pg_hba.conf entry for host "h", user "u", SSL off'),
        (Fault.NO_DATABASE, f'{SERVER}FATAL:  database "password" does not exist'),
        (Fault.NO_TLS, f"{SERVER}server does not support SSL, but SSL was required"),
        (Fault.OPTIONS, 'invalid connection option "sslmod"'),
        (Fault.OPTIONS, 'invalid sslmode value: "maybe"'),
        (Fault.OPTIONS, f"{SERVER}SSL error: certificate verify failed"),
        (Fault.OPTIONS, f"{SERVER}FATAL:  unsupported startup parameter: options"),  # PgBouncer
    ],
)
def test_words_say_why_no_connection_came_about(fault: Fault, text: str) -> None:
    assert postgresql.fault_of_connecting(text) is fault


def test_of_several_hosts_the_one_that_answers_says_why() -> None:
    text = f"{SERVER}Connection refused\n{SERVER}FATAL:  password authentication failed"
    assert postgresql.fault_of_connecting(text) is Fault.LOGIN


@pytest.mark.parametrize(
    "text",
    [
        "SSL connection has been closed unexpectedly",
        "consuming input failed: SSL SYSCALL error: EOF detected",
        "SSL SYSCALL error: Connection reset by peer",
        "IO: [libpq] Failed to commit: SSL error: unexpected eof while reading",
        "SSL error: bad length",
        "server closed the connection unexpectedly",
        "terminating connection due to administrator command",
        "no connection to the server",
        "the connection is closed",
    ],
)
def test_a_connection_that_breaks_is_lost_with_and_without_tls(text: str) -> None:
    """A COMMIT whose answer is lost must be asked about, and never be taken for refused."""
    assert postgresql.fault_of(None, text) is Fault.LOST
    assert postgresql.fault_of_statement(None, text) is Fault.LOST


def test_a_connection_that_tls_refused_from_the_start_is_not_lost() -> None:
    text = f"{SERVER}SSL error: certificate verify failed"
    assert postgresql.fault_of(None, text) is Fault.OPTIONS


def test_a_standby_that_replays_changes_is_no_lost_connection() -> None:
    cut = "terminating connection due to conflict with recovery. server closed the connection"
    assert postgresql.fault_of_statement(None, cut) is Fault.REPLAY
    statement = "canceling statement due to conflict with recovery"
    assert postgresql.fault_of_statement("40001", statement) is Fault.REPLAY


def test_a_pooler_in_statement_mode_is_no_lost_connection() -> None:
    said = "transaction blocks not allowed in statement pooling mode"
    cut = f"FATAL:  {said}\nserver closed the connection unexpectedly"
    for meaning in (postgresql.fault_of, postgresql.fault_of_statement):
        assert meaning(None, cut) is Fault.NO_TRANSACTIONS
        assert meaning("08P01", said) is Fault.NO_TRANSACTIONS


def test_rows_that_stop_coming_say_why_in_words() -> None:
    def fault(text: str) -> Fault:
        return postgresql.fault_of_statement(None, text)

    assert fault("canceling statement due to statement timeout") is Fault.TIMED_OUT
    assert fault("canceling statement due to conflict with recovery") is Fault.REPLAY
    assert fault("canceling statement due to user request") is Fault.TIMED_OUT
    assert fault("cannot execute nextval() in a read-only transaction") is Fault.READ_ONLY
    assert fault("division by zero") is Fault.OTHER


def test_a_duplicate_key_of_the_catalogue_is_a_table_that_is_there_already() -> None:
    text = 'duplicate key value violates unique constraint "pg_type_typname_nsp_index"'
    assert postgresql.fault_of("23505", text) is Fault.EXISTS
    assert postgresql.fault_of("23505", 'unique constraint "orders_pkey"') is Fault.DUPLICATE


# SQLite


def error_of_sqlite(path: str | Path, *statements: str) -> sqlite3.Error:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        for statement in statements[:-1]:
            connection.execute(statement)
        with pytest.raises(sqlite3.Error) as caught:
            connection.execute(statements[-1])
    finally:
        connection.close()
    return caught.value


def test_a_schema_that_is_no_list_of_names_is_a_fault_of_the_address() -> None:
    text = 'invalid value for parameter "search_path": "a b"'
    assert postgresql.fault_of("22023", text) is Fault.OPTIONS
    assert postgresql.fault_of_statement("22023", text) is Fault.OPTIONS
    assert postgresql.fault_of("22023", 'time zone "a b" not recognized') is Fault.REFUSED


@pytest.mark.parametrize(
    ("fault", "statements"),
    [
        (Fault.NO_TABLE, ("SELECT 1 FROM absent",)),
        (Fault.NO_COLUMN, ("CREATE TABLE t (a)", "SELECT b FROM t")),
        (Fault.NO_COLUMN, ("CREATE TABLE t (a)", "INSERT INTO t (b) VALUES (1)")),
        (Fault.NO_COLUMN, ("CREATE TABLE t (a, b)", "INSERT INTO t VALUES (1)")),
        (Fault.REFUSED, ("SELEC 1",)),
        (Fault.REFUSED, ("SELECT 1; SELECT 2",)),
        (Fault.DUPLICATE, ("CREATE TABLE t (a UNIQUE)", "INSERT INTO t VALUES (1), (1)")),
        (Fault.READ_ONLY, ("PRAGMA query_only = 1", "CREATE TABLE t (a)")),
        (Fault.DISK_FULL, ("CREATE TABLE t (a)", "PRAGMA max_page_count = 2",
                           "INSERT INTO t VALUES (zeroblob(99999))")),
    ],
)  # fmt: skip
def test_a_result_code_of_sqlite_has_one_meaning(fault: Fault, statements: tuple[str, ...]) -> None:
    assert sqlite.fault_of(error_of_sqlite(":memory:", *statements)) is fault


def test_a_null_or_a_failed_check_is_no_row_that_is_there_already() -> None:
    for column in ("a INT NOT NULL", "a INT CHECK (a > 0)"):
        table, value = f"CREATE TABLE t ({column})", "NULL" if "NULL" in column else "0"
        error = error_of_sqlite(":memory:", table, f"INSERT INTO t VALUES ({value})")
        assert sqlite.fault_of(error) is Fault.REFUSED


def test_a_file_that_is_locked_broken_or_absent_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert sqlite.fault_of(error_of_sqlite(path, "CREATE TABLE t (a)")) is Fault.LOCKED
    holder.close()
    broken = tmp_path / "b.db"
    broken.write_bytes(b"no database at all" * 99)
    assert sqlite.fault_of(error_of_sqlite(broken, "SELECT 1 FROM t")) is Fault.DAMAGED
    attach = f"ATTACH '{tmp_path}/absent/c.db' AS c"
    assert sqlite.fault_of(error_of_sqlite(":memory:", attach)) is Fault.CANNOT_OPEN


# DuckDB


def error_of_duckdb(*statements: str) -> Exception:
    connection = driver_of_duckdb.connect()
    try:
        for statement in statements[:-1]:
            connection.execute(statement)
        with pytest.raises(driver_of_duckdb.Error) as caught:
            connection.execute(statements[-1])
    finally:
        connection.close()
    return caught.value


def test_a_class_of_duckdb_has_one_meaning(tmp_path: Path) -> None:
    assert duckdb.fault_of(error_of_duckdb("SELEC 1")) is Fault.REFUSED
    assert duckdb.fault_of(error_of_duckdb("SELECT 1 FROM absent")) is Fault.REFUSED
    missing = f"ATTACH '{tmp_path}/blocks/absent.duckdb' AS a (READ_ONLY)"
    assert duckdb.fault_of(error_of_duckdb(missing)) is Fault.IO
    path = tmp_path / "a.duckdb"
    driver_of_duckdb.connect(path).close()
    writes = (f"ATTACH '{path}' AS a (READ_ONLY)", "CREATE TABLE a.t (i INT)")
    assert duckdb.fault_of(error_of_duckdb(*writes)) is Fault.READ_ONLY


def test_two_writers_of_one_row_of_duckdb_are_a_conflict(tmp_path: Path) -> None:
    one = driver_of_duckdb.connect(tmp_path / "a.duckdb")
    one.execute("CREATE TABLE t AS SELECT 1 AS i")
    two = one.cursor()
    one.begin()
    two.begin()
    one.execute("UPDATE t SET i = 2")
    with pytest.raises(driver_of_duckdb.Error) as caught:
        two.execute("UPDATE t SET i = 3")
    assert duckdb.fault_of(caught.value) is Fault.CONFLICT
    held = driver_of_duckdb.IOException("IO Error: Could not set lock on file: Conflicting lock")
    assert duckdb.fault_of(held) is Fault.LOCKED
    one.close()


# Advice


@pytest.mark.parametrize("engine", [mysql, postgresql])
def test_advice_about_a_server_names_the_properties_of_the_job(engine: ModuleType) -> None:
    advice = engine.advice(NAMES)
    assert {advice[fault] for fault in AWAY} == {
        "Check that the server runs and that a.url names its host and port."
    }
    assert "a.user and a.password" in advice[Fault.LOGIN]
    assert "a.url" in advice[Fault.OPTIONS]
    assert Fault.OTHER in advice
