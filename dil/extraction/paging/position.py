"""Where a walk through pages goes on: all that the next request and the next decision need."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from dil.extraction.paging.rules import PageState, SessionKey
from dil.extraction.parameters import PageValues
from dil.model.json import JsonValue, as_text, read_number


@dataclass(frozen=True, slots=True)
class LastPage:
    """What the next page is compared with, so that a seam between attempts hides nothing.

    ``content`` is the hash of the body in hexadecimal, empty where bodies are not compared;
    ``rows`` and ``checksum`` are those of its rows, where rows are compared. ``names_next`` tells
    that it named the next page, ``is_short`` that it had fewer rows than the next one's start
    takes for granted.
    """

    content: str = ""
    rows: int = 0
    checksum: int = 0
    names_next: bool = False
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """The state between two pages; everything before it is read, nothing after it.

    ``number`` counts the requests so far. ``values`` and ``next_uri`` are what the next request
    says about its page. The others are what earlier pages told: ``processed`` rows, rows that were
    ``dropped``, the last session key, the total as text. ``sent_rows`` names the payload rows that
    were sent: a hash of all of them in order, empty without payload.
    """

    number: int = 0
    values: PageValues = field(default_factory=PageValues)
    next_uri: str = field(default="", repr=False)
    processed: int = 0
    dropped: int = 0
    key: SessionKey = field(default_factory=SessionKey)
    key_was_there: bool = False
    more_was_there: bool = False
    total: str | None = None
    sent_rows: str = ""
    last: LastPage = field(default_factory=LastPage)

    @classmethod
    def after(cls, state: PageState, values: PageValues, last: LastPage) -> Position:
        """Return the position after a page, ``values`` being those of the next request."""
        return cls(
            number=state.asked,
            values=values,
            next_uri=state.next_uri,
            processed=state.processed,
            key=state.key,
            key_was_there=state.key_was_there,
            more_was_there=state.more_was_there,
            total=None if state.total is None else _number_text(state.total),
            last=last,
        )

    @property
    def state(self) -> PageState:
        """Return what is known before the next page; its rows are those of no page."""
        return PageState(
            processed=self.processed,
            key=self.key,
            key_was_there=self.key_was_there,
            more_was_there=self.more_was_there,
            total=None if self.total is None else read_number(self.total),
            asked=self.number,
            next_uri=self.next_uri,
        )

    def encoded(self) -> str:
        """Return JSON that ``decoded`` reads; it holds cursors and addresses as they are."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> Position | None:
        """Return what ``encoded`` wrote, None for what another version wrote."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None


def _number_text(total: JsonValue) -> str:
    return str(total) if isinstance(total, Decimal | float) else as_text(total)
