"""Keys of older versions and misspellings of the documentation. Source: properties.yaml, D-64."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

_FACTORIES = ("DefaultConnectionClientFactory", "SecureConnectionClientFactory")


def _copy(text: str) -> str:
    return text


def _as_enabled(text: str) -> str:
    return json.dumps({"enabled": text.strip().lower()})


def _known_factory(text: str) -> str:
    return text if text.rpartition(".")[2] in _FACTORIES else ""


def _as_header_index(text: str) -> str:
    return {"true": "0", "false": "-1"}.get(text.strip().lower(), text)


# Keys of Gobblin without a meaning here that are near a property without being a misspelling of it.
OF_GOBBLIN = frozenset(
    {
        "data.publisher.extract.type",
        "data.publisher.final.name",
        "state.store.compress.values",
        "taskexecutor.threadpool.maxsize",
    }
)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What took a key's place.

    ``use`` is None when the key is simply dropped. With ``member`` the value moves into that
    member of the JSON object ``use``. ``convert`` gives the new text, blank when there is none.
    """

    use: str | None
    member: str = ""
    convert: Callable[[str], str] = _copy


DEPRECATED: dict[str, Replacement] = {
    "dataset.name": Replacement("extract.table.name"),
    "ms.csv.column.header": Replacement("ms.csv", "columnHeaderIndex", _as_header_index),
    "ms.csv.column.header.index": Replacement("ms.csv", "columnHeaderIndex"),
    "ms.csv.column.projection": Replacement("ms.csv", "columnProjection"),
    "ms.csv.escape.character": Replacement("ms.csv", "escapeCharacter"),
    "ms.csv.quote.character": Replacement("ms.csv", "quoteCharacter"),
    "ms.csv.separator": Replacement("ms.csv", "fieldSeparator"),
    "ms.csv.skip.lines": Replacement("ms.csv", "linesToSkip"),
    "csv.max.failures": Replacement("ms.csv", "maxFailures"),
    "ms.converter.csv.max.failures": Replacement("ms.csv", "maxFailures"),
    "ms.converter.keep.null.strings": Replacement("ms.csv", "keepNullString"),
    "ms.csv.default.field.type": Replacement("ms.csv", "defaultFieldType"),
    "sftpConn.timeout": Replacement("ms.sftp.conn.timeout.millis"),
    "ms.encoding": Replacement("ms.source.data.character.set"),
    "ms.http.client.factory": Replacement("ms.connection.client.factory", "", _known_factory),
    "ms.source.schema.reader.factory": Replacement(
        "ms.connection.client.factory", "", _known_factory
    ),
    "ms.target.schema.reader.factory": Replacement(
        "ms.connection.client.factory", "", _known_factory
    ),
    "ms.watermark.type": Replacement(None),
    "ms.enable.cleansing": Replacement("ms.schema.cleansing", "", _as_enabled),
}

MISSPELLED: dict[str, str] = {
    "ms.parameter": "ms.parameters",
    "ms.http.grace.period.days": "ms.grace.period.days",
    "ms.default.data.type": "ms.data.default.type",
}
