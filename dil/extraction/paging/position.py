"""The position of a walk between two pages: page values (rule G29) and the state so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal

import msgspec

from dil.extraction.paging.answers import EchoedPage, SessionKey
from dil.extraction.paging.rules import PageState
from dil.extraction.parameters import PageValues
from dil.model.job import ExtractionSpec
from dil.model.json import as_text, read_number
from dil.model.settings import flat_parameters


@dataclass(frozen=True, slots=True)
class LastPage:
    """The last page of an attempt, for comparison with the first page of the next attempt.

    ``content`` is the hash of the body in hexadecimal, empty if bodies are not compared. ``rows``
    and ``checksum`` are the number and checksum of its rows, if rows are compared. ``names_next``
    is true if the page named the next page, ``is_short`` if it had fewer rows than the start of the
    next page assumes.
    """

    content: str = ""
    rows: int = 0
    checksum: int = 0
    names_next: bool = False
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class PagingPosition:
    """The state between two pages: all rows before it were read, and no row after it.

    ``number`` counts the requests so far. ``values`` and ``next_uri`` are the page values and the
    address of the next request. The other fields come from earlier pages: the numbers of
    ``processed`` and ``dropped`` rows, the last session key, the total as text. ``sent_rows`` is a
    hash of all payload rows that were sent, in order; it is empty if there is no payload.
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
    def after(cls, state: PageState, values: PageValues, last: LastPage) -> PagingPosition:
        """Return the position after a page; ``values`` are the page values of the next request."""
        total = state.total
        text = str(total) if isinstance(total, Decimal | float) else as_text(total)
        return cls(
            number=state.asked,
            values=values,
            next_uri=state.next_uri,
            processed=state.processed,
            key=state.key,
            key_was_there=state.key_was_there,
            more_was_there=state.more_was_there,
            total=None if total is None else text,
            last=last,
        )

    @property
    def state(self) -> PageState:
        """Return the state before the next page; the number of the page's rows is 0 in it."""
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
        """Return the position as JSON text for ``decoded``; cursors and addresses are unchanged."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> PagingPosition | None:
        """Return the position in a text of ``encoded``, None for a text of another version."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None


def next_values(previous: PageValues, echoed: EchoedPage, rows: int, cursor: str) -> PageValues:
    """Return the page values of the next request (rule G29); an empty cursor becomes None."""
    size = previous.size if echoed.size is None else echoed.size
    if echoed.start is not None and echoed.size is not None:
        start = echoed.start + echoed.size
    else:
        start = (previous.start or 0) + (rows if size is None else size)
    number = previous.number if echoed.number is None else echoed.number
    return replace(
        previous,
        start=start,
        size=size,
        number=1 if number is None else number + 1,
        session=cursor or None,
    )


def skips_rows(spec: ExtractionSpec, size: int | None, echoed: EchoedPage, rows: int) -> bool:
    """Return whether the next start skips rows, because the page had fewer rows than the step.

    The start moves on by the requested ``size`` (rule G29), but a source that caps its pages gives
    fewer rows. A page value in the answer would correct the start.
    """
    is_echoed = echoed.start is not None or echoed.size is not None
    if size is None or is_echoed or rows >= size:
        return False
    return any(each.type == "pagestart" for each in flat_parameters(spec.parameters))
