"""One entry of a file log's journal: the changes of one transaction, as JSON.

An entry has the statements themselves, not their names in ``dil.state.databases.sql``, so that a
later dil with other statements can still replay it. It also has the number of rows that each
statement matched: if a replay matches another number, its state is not the one on which the entry
was made.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dil.errors import StateError
from dil.state.databases import tables
from dil.state.databases.database import SqlValue

NO_ENTRY = ""
WITHOUT_COPY = (
    "Without a copy, move the job's folder away: the next run has no history and reads "
    "everything again, so move the published data away, too, or its rows are doubled."
)
_CHANGES = ("INSERT INTO ", "UPDATE ", "DELETE FROM ")


@dataclass(frozen=True, slots=True)
class LogChange:
    """A statement that changed rows, its values, and the number of rows that it matched."""

    statement: str
    matched: int
    values: tuple[SqlValue, ...]


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One transaction of a job.

    ``format`` is the format of the tables that the entry changes. ``previous`` is the
    ``content_hash`` of the entry before, ``NO_ENTRY`` for the first entry, whose number is 1.
    ``writer`` is unique to each attempt to write an entry, so that a writer recognizes its own
    entry.
    """

    format: int
    job: str
    number: int
    previous: str
    writer: str
    changes: tuple[LogChange, ...]


def encode(entry: LogEntry) -> bytes:
    """Return an entry as UTF-8 JSON; a statement that occurs several times is written once."""
    statements = list(dict.fromkeys(change.statement for change in entry.changes))
    places = {statement: place for place, statement in enumerate(statements)}
    fields = {
        "format": entry.format,
        "job": entry.job,
        "number": entry.number,
        "previous": entry.previous,
        "writer": entry.writer,
        "statements": statements,
        "changes": [
            [places[change.statement], change.matched, list(map(_shown, change.values))]
            for change in entry.changes
        ],
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode(content: bytes, place: str) -> LogEntry:
    """Return the entry that ``encode`` wrote.

    Args:
        content: The whole file.
        place: The file's name, for messages.

    Raises:
        StateError: the content is damaged, or of another format.
    """
    try:
        fields = json.loads(content)
        found = fields["format"]
        if isinstance(found, int) and tables.is_readable(found):
            return LogEntry(
                format=found,
                job=_text(fields["job"]),
                number=int(fields["number"]),
                previous=_text(fields["previous"]),
                writer=_text(fields["writer"]),
                changes=tuple(_changes(fields["statements"], fields["changes"])),
            )
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        raise damaged(place, f"it cannot be read ({error!r})") from error
    raise tables.refused_format(found if isinstance(found, int) else None, place, WITHOUT_COPY)


def damaged(place: str, what: str) -> StateError:
    """Return the error for a state file whose content is not what DIL wrote."""
    return StateError(
        f"the state file {place} is damaged: {what}",
        f"Restore the job's folder from a copy. {WITHOUT_COPY}",
    )


def _changes(statements: list[str], changes: Iterable[Any]) -> Iterable[LogChange]:
    for place, matched, values in changes:
        statement = _text(statements[place])
        if not statement.startswith(_CHANGES):
            # The file's text is run as SQL: only statements that change rows are allowed.
            raise ValueError(f"{statement!r} is no change of rows")
        yield LogChange(statement, int(matched), tuple(_value(value) for value in values))


def _shown(value: SqlValue) -> object:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode("ascii")}
    return value


def _value(shown: object) -> SqlValue:
    if shown is None or isinstance(shown, str | int):
        return shown
    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"], validate=True)
    raise ValueError(f"{shown!r} is no value")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
