"""Reads the texts of command-line arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

import click

from dil.errors import ConfigError, Origin
from dil.model.json import compact, read_number
from dil.text.zones import EPOCH, MILLISECOND

_UNIT_FIX = 'Write it as signatures show it: --unit \'{"id":"42"}\'.'


def utf_8_text(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Return the text of an option that is stored, or compared with rows; a callback of click's.

    Raises:
        ConfigError: the text has bytes that are not UTF-8.
    """
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        what, fix = "holds bytes that are not UTF-8", "Give it in UTF-8."
        raise ConfigError.single(option.opts[0], what, fix) from None
    return text


def parse_definitions(definitions: Iterable[str]) -> dict[str, str]:
    """Return the properties given by -D; if a key comes twice, the last value counts.

    Raises:
        ConfigError: a text has no ``=`` or no key. The message does not repeat the value, which
            may be a secret.
    """
    properties: dict[str, str] = {}
    for definition in definitions:
        key, equals, value = definition.partition("=")
        if not equals or not key.strip():
            what = 'has no key in front of "="' if equals else f'"{key}" has no "=" and value'
            raise ConfigError.single("", what, "Write -D key=value.", Origin("-D"))
        properties[key.strip()] = value
    return properties


def parse_unit(text: str) -> str:
    """Return a unit given as JSON in the compact form that signatures have.

    Raises:
        ConfigError: the text is not a JSON object.
    """
    try:
        value = json.loads(text, parse_float=read_number, parse_int=read_number)
    except ValueError as error:
        raise ConfigError.single("--unit", f"{text} is no JSON: {error}", _UNIT_FIX) from None
    if not isinstance(value, dict):
        raise ConfigError.single("--unit", f"{text} is no JSON object", _UNIT_FIX)
    return compact(value)


def parse_now(text: str) -> int:
    """Return the epoch milliseconds of ISO 8601 text with a zone, rounded down.

    Raises:
        ConfigError: the text is not ISO 8601, or names no zone.
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
    return (moment - EPOCH) // MILLISECOND
