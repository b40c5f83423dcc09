"""Refuses windows of local times that the database reads as later instants, in UTC.

A local time without its offset is right for a column of local times. A column with a zone is
compared with the time in the session's zone, UTC. East of UTC, such a window ends in the future:
rows that come until then are in no window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from connectors.jdbc.engine import SourceConnection
from connectors.jdbc.statement import Statement
from dil.errors import SourceContractError
from dil.model.json import JsonValue
from dil.model.settings import Parameter
from dil.spi.connector import SessionContext
from dil.text.joda_tokens import tokenize
from dil.text.zones import find_zone, to_local


def times_ahead(context: SessionContext, now_ms: int) -> Iterator[str]:
    """Yield the parameters whose local time would be after now if it were read in UTC.

    Yield none if no row is lost by it: later runs read the rows again, or the job itself asks for a
    window that ends in the future, as for forecasts.
    """
    job, unit = context.job, context.work_unit
    if job.reads_again(unit) or unit.high > context.run_now:
        return
    least_grace_ms, _ = job.planning.grace_range_ms
    for each in job.extraction.parameters:
        # A member of the unit replaces the parameter of its name.
        if not _is_local(each) or each.name in unit.unit:
            continue
        instant = unit.low if str(each.value).lower() == "low" else unit.high
        distance = to_local(instant, find_zone(each.timezone)).utcoffset() or timedelta()
        distance_ms = distance // timedelta(milliseconds=1)
        if distance_ms > least_grace_ms and instant + distance_ms > now_ms:
            yield each.name


def refuse_as_instants(
    connection: SourceConnection,
    statement: Statement,
    variables: Mapping[str, JsonValue],
    names: Iterable[str],
) -> None:
    """Raise if the statement uses one of the local times ``names`` as a time with a zone.

    Raises:
        SourceContractError: the database would read another instant.
        TransientSourceError: the server is gone, or was too slow.
    """
    for name in connection.instants(statement, variables, names):
        raise SourceContractError(
            f"{{{{{name}}}}} is a local time without its offset, and the statement uses it as a"
            " timestamptz: the database reads it in UTC, as a time in the future, and rows that"
            " come until then would be lost",
            'If the column is a timestamptz, add "timezone": "UTC" to the parameters of type'
            " watermark in ms.parameters. If it is a timestamp, leave the zone, and write"
            f" {{{{{name}}}}}::timestamp in ms.jdbc.statement.",
        )


def _is_local(parameter: Parameter) -> bool:
    if parameter.type != "watermark" or parameter.format != "datetime":
        return False
    return not any(token.letter in "zZ" for token in tokenize(parameter.pattern) if token.letter)
