"""How the texts of the command line are read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from dil.errors import ConfigError, Origin

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_definitions(definitions: Iterable[str]) -> dict[str, str]:
    """Return the properties given by -D; the last one of a key counts.

    Raises:
        ConfigError: one has no ``=`` or no key. Its value is not repeated: it may be a secret.
    """
    properties: dict[str, str] = {}
    for definition in definitions:
        key, equals, value = definition.partition("=")
        if not equals or not key.strip():
            what = 'has no key in front of "="' if equals else f'"{key}" has no "=" and value'
            raise ConfigError.single("", what, "Write -D key=value.", Origin("-D"))
        properties[key.strip()] = value
    return properties


def parse_now(text: str) -> int:
    """Return the epoch milliseconds of ISO 8601 text with a zone, rounded down.

    Raises:
        ConfigError: it is something else, or names no zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError.single(
            "--now",
            f'"{text}" is not an ISO 8601 instant ({error})',
            "Write it like 2024-03-05T00:00:00Z or 2024-03-05T00:00:00-08:00.",
        ) from None
    if moment.tzinfo is None:
        suggestion = f"{moment.isoformat()}Z"
        raise ConfigError.single(
            "--now",
            f'"{text}" names no zone, so it could be any of many instants',
            f"Add Z for UTC, or an offset: {suggestion}",
        )
    return (moment - _EPOCH) // timedelta(milliseconds=1)
