"""The intent as text: what was decided, to be finished by anyone (spec README 27)."""

from __future__ import annotations

import msgspec

from dil.errors import StateError
from dil.model.dataset import Intent

# Since 2 an intent says what its destination is.
_FORMATS = (1, 2)
_LATER = ("act", "quarantine", "quarantine_removes", "skipped")


class _Envelope(msgspec.Struct):
    format: int


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    intent: Intent


def encode_intent(intent: Intent) -> str:
    """Return the intent as one line of JSON that names its format.

    What came later is not mentioned where it says nothing, such as operators' acts in a run's
    intent, so that older versions can finish it.
    """
    number = 2 if intent.destination else 1
    document = msgspec.to_builtins(_Document(number, intent))
    commit = document["intent"]["commit"]
    if not intent.destination:
        del document["intent"]["destination"]
    for name in _LATER:
        if not commit[name]:
            del commit[name]
    return msgspec.json.encode(document).decode()


def decode_intent(text: str) -> Intent:
    """Return the intent of a text that ``encode_intent`` made.

    Raises:
        StateError: the text is damaged or of a newer format.
    """
    try:
        found = msgspec.json.decode(text, type=_Envelope).format
        if found in _FORMATS:
            return msgspec.json.decode(text, type=_Document).intent
    except msgspec.MsgspecError as error:
        raise StateError(
            f"the recorded intent cannot be read: {error}",
            "Restore the state store from a copy; delete no staged or published file before.",
        ) from error
    raise StateError(
        f"the recorded intent has format {found}, this dil reads formats up to {_FORMATS[-1]}",
        "Finish the run with the dil version that began it.",
    )
