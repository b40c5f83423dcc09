"""The connector of databases. Importing it is quick: the first request loads the driver."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from connectors.address import AddressError
from connectors.jdbc import spark_reader
from connectors.jdbc.address import read_address
from connectors.jdbc.cursor import key_columns
from connectors.jdbc.settings import JdbcSettings
from connectors.jdbc.sql_text import SqlTextError, pieces, statements
from connectors.jdbc.statement import Statement, misspelt, names_in
from connectors.jdbc.syntax import Kind, kind_of, syntax_of
from dil.errors import Problem
from dil.model.job import Job
from dil.model.json import JsonObject
from dil.model.path import is_jsonpath
from dil.model.properties import Properties
from dil.model.settings import flat_parameters
from dil.sections.extraction import EXTRACTOR, ExtractionSection
from dil.sections.paging import PAGES, SESSION, TOTAL, PagingSection
from dil.sections.parameters import PARAMETERS, ParametersSection
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import KEY_RANGES, STATEMENT, URI, DatabaseSection, SourceSection
from dil.spi.connector import Connector, RowSession, SessionContext, SparkReader
from dil.text.variables import placeholders

_EXTRACTORS = {"json", "csv"}


class JdbcConnector(Connector):
    """Reads the rows of a SQL statement (docs/databases.md)."""

    unit_properties = frozenset({KEY_RANGES})
    reads_window = False

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return problems of the address, the statement, and its paging."""
        if spark_reader.is_chosen(properties):
            return [*spark_reader.problems(properties), *_other_problems(properties)]
        found: list[Problem] = []
        uri = properties.section(SourceSection).uri
        if uri and not uri.startswith("ENC(") and not placeholders(uri):
            try:
                read_address(uri)
            except AddressError as error:
                found.append(Problem(properties.origin(URI), URI, error.what, error.fix))
        found += _statement_problems(properties)
        if properties.section(DatabaseSection).statement.strip():
            found += _paging_problems(properties)
        return [*found, *_other_problems(properties), *spark_reader.needless(properties)]

    @classmethod
    def warnings(cls, properties: Properties) -> Iterable[Problem]:
        """Return the secrets that Spark would keep in its event log."""
        return spark_reader.kept_secrets(properties) if spark_reader.is_chosen(properties) else ()

    @classmethod
    def changes(cls, job: Job) -> Problem | None:
        """Return a problem if the statement is not a query."""
        kind = kind_of(job.source.uri) or Kind.POSTGRESQL
        with suppress(SqlTextError):
            if Statement(job.properties.section(DatabaseSection).statement, syntax_of(kind)).reads:
                return None
        return Problem(
            job.properties.origin(STATEMENT), STATEMENT, "is no query: it may change something"
        )

    @classmethod
    def spark_reader(cls, job: Job) -> SparkReader | None:
        """Return the reader that Spark uses if ``ms.jdbc.reader`` is ``spark``, else None."""
        return spark_reader.reader_of(job) if spark_reader.is_chosen(job.properties) else None

    def open(self, context: SessionContext) -> RowSession:
        """Return a session that runs the statement, or that yields the rows that Spark reads."""
        from connectors.jdbc.local_times import times_ahead
        from connectors.jdbc.session import JdbcSession, SparkRows

        settings = JdbcSettings.of(context.job, context.work_unit.unit)
        if spark_reader.is_chosen(context.job.properties):
            return SparkRows(settings, context.rows)
        now_ms = time.time_ns() // 1_000_000  # of the query, whatever time the run planned for
        return JdbcSession(settings, context.shared, times_ahead(context, now_ms))

    @classmethod
    def units(cls, job: Job, now_ms: int) -> Iterable[JsonObject]:
        """Yield the ranges of ``ms.jdbc.partition.column`` as units, each with member ``range``.

        Raises:
            SourceError: the database does not answer the query.
            SourceContractError: the column cannot be cut into ranges.
        """
        del now_ms
        from connectors.jdbc.session import key_ranges

        database = job.properties.section(DatabaseSection)
        by_quantile = database.ranges_by == "quantile"
        parts = key_ranges(JdbcSettings.of(job), database.ranges, by_quantile=by_quantile)
        return [{"range": part} for part in parts]


def _statement_problems(properties: Properties) -> Iterator[Problem]:
    statement = properties.section(DatabaseSection).statement
    origin = properties.origin(STATEMENT)
    if not statement.strip():
        yield Problem(origin, STATEMENT, "is not set", "Write the SQL that gives the rows.")
        return
    kind = kind_of(properties.section(SourceSection).uri)
    if kind is None:
        return
    try:
        cut = pieces(statement, syntax_of(kind))
    except SqlTextError as error:
        yield Problem(origin, STATEMENT, str(error))
        return
    if typo := misspelt(cut):
        wrong, right = (word.upper() for word in typo)
        what = f"begins with {wrong}, which is no word that a statement begins with"
        yield Problem(origin, STATEMENT, what, f"Did you mean {right}?")
    count = statements(cut)
    if properties.section(DatabaseSection).key_column and names_in(statement):
        name = min(names_in(statement))
        yield Problem(
            properties.origin(KEY_RANGES),
            KEY_RANGES,
            f"cuts the rows of a statement with the variable {{{{{name}}}}}, which has no value"
            " yet at planning time",
            "Write the statement without variables.",
        )
    if count > 1:
        yield Problem(
            origin,
            STATEMENT,
            f"has {count} statements",
            "Write one statement; DIL runs it for each page.",
        )


def _paging_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the problems of paging by a key, and by a page's number or start."""
    paging = properties.section(PagingSection)
    session = paging.session
    for name, text in (
        (SESSION, session.name if session else ""),
        (TOTAL, paging.total_count_field),
    ):
        if is_jsonpath(text):
            yield Problem(
                properties.origin(name),
                name,
                f'has "{text}", but the rows of a statement have columns, not JSON',
                "Write the name of a column.",
            )
    if session is not None and session.condition is None:
        cursors = _used(properties, {"session"})
        if not cursors:
            yield Problem(
                properties.origin(SESSION),
                SESSION,
                "pages by a session key, and ms.jdbc.statement uses no parameter of type session:"
                " each page would be the same",
                'Declare one, {"name": "cursor", "type": "session"}, and compare the key with'
                " {{cursor}}.",
            )
        elif session.init_value is None:
            example = '"[0, 0]"' if len(key_columns(session.name)) > 1 else '"0"'
            yield Problem(
                properties.origin(SESSION),
                SESSION,
                f"has no initValue, and the first statement needs {{{{{min(cursors)}}}}}",
                f'Add an initValue that sorts before all keys, for example "initValue": {example}.',
            )
    for each in flat_parameters(properties.section(ParametersSection).parameters):
        if each.type == "session" and each.format in {"json", "members"}:
            yield Problem(
                properties.origin(PARAMETERS),
                PARAMETERS,
                f'"{each.name}" has format {each.format}, and a database has a session key of text',
                "Leave format out: {{cursor.column}} is a column of a key of several columns.",
            )
    choosing = {"pagestart", "pageno", "session"}
    if (
        paging.pagination.is_on
        and _used(properties, {"pagesize"})
        and not _used(properties, choosing)
    ):
        yield Problem(
            properties.origin(PAGES),
            PAGES,
            "ms.jdbc.statement uses the page size, but no parameter that chooses the page: only"
            " the first rows would be read",
            "Use a parameter of type pagestart as the offset, or a session key.",
        )


def _other_problems(properties: Properties) -> Iterator[Problem]:
    for _ in properties.section(SecondarySection).payload:
        yield Problem(
            properties.origin(SECONDARY),
            SECONDARY,
            "has rows to send (category payload), but a database source sends none",
            "Send rows with source.class=http.",
        )
    extractor = re.split(r"[.:]", properties.section(ExtractionSection).extractor or "json")[-1]
    if extractor.lower().removesuffix("extractor") not in _EXTRACTORS:
        yield Problem(
            properties.origin(EXTRACTOR),
            EXTRACTOR,
            "does not go with a database, whose rows need no extractor",
            "Write ms.extractor.class=json.",
        )


def _used(properties: Properties, types: set[str]) -> set[str]:
    """Return the parameters of the given types that the statement uses, also indirectly."""
    parameters = properties.section(ParametersSection).parameters
    used = {
        name.partition(".")[0] for name in names_in(properties.section(DatabaseSection).statement)
    }
    for each in parameters:
        if each.name in used:
            used |= set(placeholders(str(each.value)))
    return {
        each.name
        for each in flat_parameters(parameters)
        if each.type in types and each.name in used
    }
