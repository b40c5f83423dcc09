"""Lets Spark read the rows by a JDBC driver in the user's jar (``ms.jdbc.reader=spark``).

Values become literals of the statement, because Spark binds no values. The database may be one that
DIL does not know, so DIL allows only characters that all databases read alike: a value can never
become SQL.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path

from connectors.address import AddressError
from connectors.jdbc.address import filled_address
from connectors.jdbc.section import JdbcSection
from connectors.jdbc.settings import JdbcSettings
from connectors.jdbc.sql_text import SqlPart, SqlPiece, SqlTextError, pieces, statements
from connectors.jdbc.statement import Statement, names_in, parsed_statement
from connectors.jdbc.syntax import Kind, SqlSyntax, kind_of, syntax_of
from dil.databases import mysql
from dil.errors import ConfigError, Problem
from dil.model.job import Job
from dil.model.json import JsonValue, as_text
from dil.model.properties import Properties
from dil.model.secret import Secret
from dil.model.settings import flat_parameters
from dil.secrets import learn
from dil.sections.paging import PAGES, SESSION, PagingSection
from dil.sections.parameters import ParametersSection
from dil.sections.secondary import SecondarySection
from dil.sections.source import KEY_RANGES, STATEMENT, URI, DatabaseSection, SourceSection
from dil.spi.connector import RequestValues, SparkRead, SparkReader
from dil.text.paths import name_of
from dil.text.variables import placeholders

READER = "ms.jdbc.reader"
JAR = "ms.jdbc.driver.jar"
CLASS = "ms.jdbc.driver.class"
# Without a fetch size a driver may fetch all rows at once (PostgreSQL), or ten at a time (Oracle).
_FETCH_ROWS = "1000"
_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
_PLAIN = re.compile(r"[\w.-]*")
_PASSWORD = re.compile(r"(?i)(?<![a-z])(?:password|passwd|pwd)=([^&;,)\s]+)")
_OPTIONS = re.compile(r"[?;,(]|:\w+=")

_UNKNOWN = SqlSyntax(refused="qQ")
# Quotes of other dialects, comments, dollar quotes: DIL does not know whether a text begins here.
_OTHER_SQL = re.compile(r"[`#\[]|\$\w*\$")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# Control characters, backslashes, and characters that a narrow character set may turn into a quote.
_DOUBTFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\\\\\u02b9-\u02bc\u02c8\u2018-\u201b\u2032\u2035\uff07\uff3c]"
)


def is_chosen(properties: Properties) -> bool:
    """Return whether Spark reads the job's rows."""
    return properties.section(JdbcSection).reader == "spark"


def problems(properties: Properties) -> Iterator[Problem]:
    """Yield problems of the address, the statement, and properties that Spark does not support."""
    uri = properties.section(SourceSection).uri
    if uri and not uri.startswith(("jdbc:", "ENC(", "{{")):
        yield Problem(
            properties.origin(URI),
            URI,
            "is no address of a database",
            "Begin the address with jdbc:.",
        )
    yield from _statement_problems(properties)
    paging = properties.section(PagingSection)
    refused = {
        PAGES: paging.pagination.is_on,
        SESSION: paging.session is not None,
        KEY_RANGES: bool(properties.section(DatabaseSection).key_column),
    }
    for name, is_set in refused.items():
        if is_set:
            yield Problem(
                properties.origin(name),
                name,
                f"does not go with {READER}=spark, which reads all rows of a work unit with one"
                " query",
                "Leave it out; ms.work.unit.partition cuts the rows by time, ms.secondary.input by"
                " units.",
            )
    if properties.section(JdbcSection).invalid_dates == "null":
        yield Problem(
            properties.origin("ms.jdbc.invalid.dates"),
            "ms.jdbc.invalid.dates",
            f"does not go with {READER}=spark, because the JDBC driver converts such dates by its"
            " own rules",
            "Write a case for them in ms.jdbc.statement.",
        )
    driver = properties.section(JdbcSection).driver_class
    if driver and not _CLASS_NAME.fullmatch(driver):
        yield Problem(properties.origin(CLASS), CLASS, "is no name of a Java class")


def kept_secrets(properties: Properties) -> Iterator[Problem]:
    """Yield secrets that become literals of the query: Spark's event log keeps the query."""
    inputs = properties.section(SecondarySection).inputs
    secret = {
        name_of(field)
        for each in inputs
        if each.category == "authentication" or each.encrypted
        for field in each.fields
    }
    parameters = flat_parameters(properties.section(ParametersSection).parameters)
    secret |= {each.name for each in parameters if isinstance(each.value, Secret)}
    used = sorted(secret & set(placeholders(properties.section(DatabaseSection).statement)))
    if used:
        names = ", ".join(f"{{{{{name}}}}}" for name in used)
        yield Problem(
            properties.origin(READER),
            READER,
            f"is spark, and {STATEMENT} has the secret {names}: Spark binds no values, so the"
            " secret becomes a part of the query, which Spark keeps in its event log",
            f"Take the secret out of {STATEMENT}, read with {READER}=driver, or keep the event log"
            " as secret as the value is.",
        )


def needless(properties: Properties) -> Iterator[Problem]:
    """Yield a problem for each property of this reader in a job that uses another reader."""
    jdbc = properties.section(JdbcSection)
    for name, value in ((JAR, jdbc.driver_jar), (CLASS, jdbc.driver_class)):
        if value:
            yield Problem(
                properties.origin(name),
                name,
                f"only has an effect with {READER}=spark",
                f"Set {READER}=spark.",
            )


def reader_of(job: Job) -> SparkReader:
    """Return the reader that Spark uses for a job; runs on Spark's driver.

    Raises:
        ConfigError: a jar does not exist.
    """
    settings, jdbc = JdbcSettings.of(job), job.properties.section(JdbcSection)
    folder = Path(settings.folder)
    jars = tuple(str(folder / part.strip()) for part in jdbc.driver_jar.split(",") if part.strip())
    for jar in jars:
        if not zipfile.is_zipfile(jar):
            raise ConfigError.single(
                JAR,
                f"names {jar}, which is no jar or does not exist",
                "Name a jar that exists; a relative path starts at the job file's folder.",
            )
    return SparkReader(partial(_read, settings, jdbc.driver_class), jars)


def literal(value: JsonValue) -> str:
    """Return a value as a literal that all databases read alike.

    Raises:
        ConfigError: the value has characters that databases read differently.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    text = as_text(value)
    if isinstance(value, int | float | Decimal) and _NUMBER.fullmatch(text):
        return f"({text})" if text.startswith("-") else text
    _check(text)
    return "'" + text.replace("'", "''") + "'"


def _check(text: str) -> None:
    found = _DOUBTFUL.search(text)
    if found is None:
        return
    raise ConfigError.single(
        STATEMENT,
        f"gets a value with the character U+{ord(found.group()):04X}, which not every database"
        " reads as itself",
        "Use values without backslashes, control characters, or quotes other than ' and \", or"
        f" read with {READER}=driver.",
    )


def _statement_problems(properties: Properties) -> Iterator[Problem]:
    sql, origin = properties.section(DatabaseSection).statement, properties.origin(STATEMENT)
    if not sql.strip():
        yield Problem(origin, STATEMENT, "is not set", "Write the SQL that gives the rows.")
        return
    kind = kind_of(properties.section(SourceSection).uri)
    try:
        cut = pieces(sql, _syntax(kind))
    except SqlTextError as error:
        yield Problem(origin, STATEMENT, str(error))
        return
    if statements(cut) > 1 or not Statement(sql, _syntax(kind)).is_query:
        yield Problem(
            origin, STATEMENT, f"is not one query, and {READER}=spark reads only one query",
            "Write SELECT ..., or WITH ... if the database accepts it in parentheses.",
        )  # fmt: skip
    doubt = _doubt(cut, is_known=kind is not None) if names_in(sql) else ""
    if doubt:
        yield Problem(
            origin, STATEMENT,
            f"has {doubt} next to variables: DIL cannot be sure where the statement's texts end",
            "Remove this SQL from the statement, or put it into a view.",
        )  # fmt: skip


def _doubt(cut: tuple[SqlPiece, ...], *, is_known: bool) -> str:
    """Return the part of a statement that another mode or database may cut differently, or ""."""
    for piece in cut:
        if piece.part in {SqlPart.TEXT, SqlPart.NAME} and "\\" in piece.text:
            return "a backslash"
        if is_known:
            continue
        if piece.part is SqlPart.COMMENT:
            return "a comment"
        found = _OTHER_SQL.search(piece.text) if piece.part is SqlPart.CODE else None
        if found:
            return found.group()
    return ""


def _syntax(kind: Kind | None) -> SqlSyntax:
    return _UNKNOWN if kind is None else syntax_of(kind)


def _read(settings: JdbcSettings, driver: str, values: RequestValues) -> SparkRead:
    uri = _address(settings, values)
    kind = kind_of(uri)
    statement = parsed_statement(settings.statement, _syntax(kind))
    for name in names_in(settings.statement):
        value = values.variables.get(name)
        for each in value if isinstance(value, list | tuple) else (value,):
            _check(as_text(each))
    options = {
        "url": uri,
        # All databases accept a derived table with an alias.
        "dbtable": f"(\n{statement.bound(values.variables, literal)}) q",
        "fetchsize": _FETCH_ROWS,
        "preferTimestampNTZ": "true",
        "user": settings.user,
        "driver": driver,
        "sessionInitStatement": mysql.ALL_ROWS if kind and kind.is_mysql else "",
    }
    return SparkRead(
        "jdbc",
        _location(uri),
        {name: text for name, text in options.items() if text},
        {"password": settings.password} if settings.password else {},
    )


def _address(settings: JdbcSettings, values: RequestValues) -> str:
    """Return the address with values for its variables; a value cannot become a driver option."""
    for name in placeholders(settings.uri):
        if not _PLAIN.fullmatch(as_text(values.variables.get(name))):
            raise ConfigError.single(
                URI,
                f"gets a value for {{{{{name}}}}} that has other characters than letters, digits,"
                " _, - and the dot",
            )
    try:
        text = filled_address(settings.uri, values.variables, settings.hosts)
    except AddressError as error:
        raise ConfigError.single(URI, error.what, error.fix) from None
    if not text.startswith("jdbc:"):
        raise ConfigError.single(
            URI, "is no address of a database", "Begin the address with jdbc:."
        )
    for password in _PASSWORD.findall(text):
        learn(Secret(password))  # All messages mask it from now on.
    return text


def _location(uri: str) -> str:
    """Return the address without options and user, because these may hold a password."""
    place = uri[5:]
    place = place[: found.start()] if (found := _OPTIONS.search(place)) else place
    kind, _, rest = place.rpartition("@") if "@" in place else ("", "", place)
    return f"jdbc:{kind.partition(':')[0]}:{rest}" if kind else f"jdbc:{rest}"
