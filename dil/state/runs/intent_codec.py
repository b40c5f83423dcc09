"""The intent as text: a decided publish, which any run can finish (rule C26)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import chain
from typing import cast

import msgspec

from dil.errors import StateError
from dil.model.closed_labels import ClosedLabelChanges
from dil.model.dataset import (
    Commit,
    Intent,
    Move,
    OperatorAct,
    PublishedFile,
    RunWork,
    WorkUnitOutcome,
)
from dil.model.derived import QueryStep
from dil.model.json import JsonObject, compact, read_number

# Since format 2 an intent names its destination; since 3 it says which rows of a shared file belong
# to which work unit; since 4 it has the checkpoints that are set with the commit, the changes to
# closed timelabels and its late rows' folder; since 5 the query of its rows; since 6 the
# place of the changed rows; since 7 the work units that it forgets. An older release would ignore
# these.
_FORMATS = (1, 2, 3, 4, 5, 6, 7)
_ITEMS_OF_PIECE = 256
_LATER = (
    "act", "quarantine", "quarantine_removes", "skipped", "checkpoints", "closed_labels",
    "late_dir", "query", "changelog_dir", "begins_changelog", "forgotten",
)  # fmt: skip


class _Envelope(msgspec.Struct):
    format: int


class _StoredCommit(msgspec.Struct):
    """A commit in its stored form: members of ``RunWork`` are among its own, in this order."""

    run_id: str
    config_digest: str
    source_name: str
    moves: tuple[Move, ...]
    removes: tuple[PublishedFile, ...]
    outcomes: tuple[WorkUnitOutcome, ...]
    schema: str
    system_time: int
    horizon: int
    left_low: int | None = None
    watermarks: bool = True
    act: OperatorAct | None = None
    quarantine: tuple[Move, ...] = ()
    quarantine_removes: tuple[str, ...] = ()
    skipped: tuple[WorkUnitOutcome, ...] = ()
    checkpoints: msgspec.Raw = msgspec.Raw(b"{}")
    closed_labels: ClosedLabelChanges | None = msgspec.field(default=None, name="books")
    late_dir: str = ""
    query: QueryStep | None = None
    changelog_dir: str = ""
    begins_changelog: bool = False
    forgotten: tuple[str, ...] = ()

    def commit(self) -> Commit:
        """Return the commit."""
        run = RunWork(**{name: getattr(self, name) for name in _OF_RUN})
        found = {name: getattr(self, name) for name in _OF_COMMIT}
        checkpoints = json.loads(bytes(self.checkpoints), parse_float=read_number)
        return Commit(**{**found, "checkpoints": checkpoints}, run=run)


_STORED_NAMES = dict(
    zip(_StoredCommit.__struct_fields__, _StoredCommit.__struct_encode_fields__, strict=True)
)
_OF_RUN = tuple(field.name for field in fields(RunWork))
_OF_COMMIT = tuple(field.name for field in fields(Commit) if field.name != "run")


class _StoredIntent(msgspec.Struct):
    commit: _StoredCommit
    token: int
    dataset_dir: str
    sequence: int
    destination: str = ""


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    intent: _StoredIntent


def encode_intent(intent: Intent) -> str:
    """Return the intent as one line of JSON with the format's number."""
    return b"".join(intent_pieces(intent)).decode()


def intent_pieces(intent: Intent) -> Iterator[bytes]:
    """Yield the same text in pieces, so that a large run's text is never in memory as a whole.

    Empty newer members are left out, such as an operator's act in a run's intent, so that older
    versions can finish the intent.
    """
    commit, run = intent.commit, intent.commit.run
    found = {name: getattr(run if name in _OF_RUN else commit, name) for name in _STORED_NAMES}
    files = chain((move.target for move in commit.moves), commit.removes)
    number = 3 if any(file.is_shared for file in files) else 2 if intent.destination else 1
    number = 4 if commit.checkpoints or commit.closed_labels or commit.late_dir else number
    number = 5 if commit.query else number
    number = 6 if commit.changelog_dir else number
    number = 7 if run.forgotten else number
    yield f'{{"format":{number},"intent":{{"commit":{{'.encode()
    shown = [name for name, value in found.items() if value or name not in _LATER]
    for place, name in enumerate(shown):
        yield f'{"," * (place > 0)}"{_STORED_NAMES[name]}":'.encode()
        yield from _value_pieces(found[name])
    yield b"}"
    for name in _StoredIntent.__struct_fields__[1:]:
        if name != "destination" or intent.destination:
            yield f',"{name}":'.encode() + msgspec.json.encode(getattr(intent, name))
    yield b"}}"


def _value_pieces(value: object) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        yield compact(cast("JsonObject", value)).encode()
        return
    if not isinstance(value, tuple):
        yield msgspec.json.encode(value)
        return
    yield b"["
    for start in range(0, len(value), _ITEMS_OF_PIECE):
        yield b"," * (start > 0) + msgspec.json.encode(value[start : start + _ITEMS_OF_PIECE])[1:-1]
    yield b"]"


def decode_intent(text: str | bytes) -> Intent:
    """Return the intent of a text that ``encode_intent`` made.

    Raises:
        StateError: the text is damaged or of a newer format.
    """
    try:
        found = msgspec.json.decode(text, type=_Envelope).format
        if found in _FORMATS:
            stored = msgspec.json.decode(text, type=_Document).intent
            return Intent(
                stored.commit.commit(),
                stored.token,
                stored.dataset_dir,
                stored.sequence,
                stored.destination,
            )
    except msgspec.MsgspecError as error:
        raise StateError(
            f"the recorded intent cannot be read: {error}",
            "Restore the state store from a copy; delete no staged or published file before that. "
            "Or"
            " give the publish up: dil runs abandon JOB.conf shows what that does.",
        ) from error
    raise StateError(
        f"the recorded intent has format {found}, this dil reads formats up to {_FORMATS[-1]}",
        "Finish the run with the dil version that began it. Without that version, give the"
        " publish up: dil runs abandon JOB.conf shows what that does.",
    )
