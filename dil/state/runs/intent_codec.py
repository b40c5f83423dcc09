"""The intent as text: what was decided, to be finished by anyone (spec README 27)."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from dil.errors import StateError
from dil.model.dataset import (
    Commit,
    Intent,
    Move,
    OperatorAct,
    PublishedFile,
    RunWork,
    WorkUnitOutcome,
)

# Since 2 an intent says what its destination is.
_FORMATS = (1, 2)
_LATER = ("act", "quarantine", "quarantine_removes", "skipped")


class _Envelope(msgspec.Struct):
    format: int


class _StoredCommit(msgspec.Struct):
    """A commit as it is stored: the members of ``RunWork`` stand among its own, in this order."""

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

    @classmethod
    def of(cls, commit: Commit) -> _StoredCommit:
        run = commit.run
        return cls(
            **{name: getattr(commit, name) for name in _OF_COMMIT},
            **{name: getattr(run, name) for name in _OF_RUN},
        )

    def commit(self) -> Commit:
        """Return the commit."""
        run = RunWork(**{name: getattr(self, name) for name in _OF_RUN})
        return Commit(**{name: getattr(self, name) for name in _OF_COMMIT}, run=run)


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
    """Return the intent as one line of JSON that names its format.

    What came later is not mentioned where it says nothing, such as operators' acts in a run's
    intent, so that older versions can finish it.
    """
    number = 2 if intent.destination else 1
    stored = _StoredIntent(
        _StoredCommit.of(intent.commit),
        intent.token,
        intent.dataset_dir,
        intent.sequence,
        intent.destination,
    )
    # Members stay what they are: as dicts, the thousands of a large run would take much memory.
    commit = msgspec.structs.asdict(stored.commit)
    commit = {name: value for name, value in commit.items() if value or name not in _LATER}
    members = {**msgspec.structs.asdict(stored), "commit": commit}
    if not intent.destination:
        del members["destination"]
    return msgspec.json.encode({"format": number, "intent": members}).decode()


def decode_intent(text: str) -> Intent:
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
            "Restore the state store from a copy; delete no staged or published file before.",
        ) from error
    raise StateError(
        f"the recorded intent has format {found}, this dil reads formats up to {_FORMATS[-1]}",
        "Finish the run with the dil version that began it.",
    )
