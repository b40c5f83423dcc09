"""Refuses windows of local times that the database reads as later instants, in UTC.

A local time without its offset is right for a column of local times. A column with a zone is
compared with the time in the session's zone, UTC. East of UTC, such a window ends in the future:
rows that come until then are in no window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import timedelta

from connectors.jdbc.engine import Login
from connectors.jdbc.statement import parsed_statement
from connectors.jdbc.syntax import Kind
from dil.errors import SourceContractError, SourceError
from dil.model.job import Job
from dil.model.json import JsonValue
from dil.model.settings import Parameter, flat_parameters
from dil.model.work_unit import WorkUnit
from dil.text.joda_tokens import tokenize
from dil.text.zones import find_zone, to_local


def times_ahead(job: Job, work_unit: WorkUnit, now_ms: int) -> Iterator[str]:
    """Yield the parameters whose local time would be after now if it were read in UTC.

    Yield none if later runs read the rows in any case: all rows, or those of a grace period that is
    longer than the distance from UTC.
    """
    planning = job.planning
    if planning.ignore_history:
        return
    for each in flat_parameters(job.extraction.parameters):
        if not _is_local(each):
            continue
        instant = work_unit.low if str(each.value).lower() == "low" else work_unit.high
        distance = to_local(instant, find_zone(each.timezone)).utcoffset() or timedelta()
        distance_ms = distance // timedelta(milliseconds=1)
        if distance_ms > planning.grace_range_ms[0] and instant + distance_ms > now_ms:
            yield each.name


def refuse_as_instants(
    login: Login, sql: str, variables: Mapping[str, JsonValue], names: Iterable[str]
) -> None:
    """Raise if the statement compares one of the local times ``names`` with a column with a zone.

    Only PostgreSQL says what it compares a value with. It is asked over a connection of its own,
    because a refused statement ends a transaction.

    Raises:
        SourceContractError: the database would read another instant.
    """
    if login.address.kind is not Kind.POSTGRESQL:
        return
    from connectors.jdbc.engines.postgresql import PostgresqlConnection

    found: list[str] = []
    # Other faults are raised by the query that follows.
    with suppress(SourceError), closing(PostgresqlConnection(login)) as connection:
        found = connection.instants(parsed_statement(sql, connection.syntax), variables, names)
    for name in found:
        raise SourceContractError(
            f"{{{{{name}}}}} is a local time without its offset, and the statement compares it with"
            " a column that has a zone: the database reads it in UTC, as a time in the future, and"
            " rows that come until then would be lost",
            'Add "timezone": "UTC" to the parameters of type watermark.',
        )


def _is_local(parameter: Parameter) -> bool:
    if parameter.type != "watermark" or parameter.format != "datetime":
        return False
    return not any(token.letter in "zZ" for token in tokenize(parameter.pattern) if token.letter)
