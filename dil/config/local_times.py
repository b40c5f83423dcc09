"""Watermark parameters whose text may stand for two instants (behaviour.md B6.3)."""

from __future__ import annotations

from datetime import UTC, datetime

from dil.model.settings import Parameter
from dil.text.joda_tokens import tokenize
from dil.text.zones import find_zone

# A zone counts with the rules that it has to come; former ones are of no harm any more.
_YEAR = 2037
_HOURS = frozenset("hHkK")


def is_ambiguous(parameter: Parameter) -> bool:
    """Return whether a watermark is told as a local time that the zone has twice a year.

    A zone id (ZZZ) does not tell the two apart; an offset or a short name (CET, CEST) does.
    """
    if parameter.format != "datetime":
        return False
    fields = [token for token in tokenize(parameter.pattern) if token.letter]
    says_offset = any(field.letter in "zZ" and not field.is_zone_id for field in fields)
    says_hour = any(field.letter in _HOURS for field in fields)
    return says_hour and not says_offset and _changes_clocks(parameter.timezone)


def _changes_clocks(zone: str) -> bool:
    place = find_zone(zone)
    months = (datetime(_YEAR, month, 1, tzinfo=UTC) for month in range(1, 13))
    return len({month.astimezone(place).utcoffset() for month in months}) > 1
