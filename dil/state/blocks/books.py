"""The books as a checkpoint keeps them: an index of the CloseBooks and ReopenBooks blocks.

Windows of one schedule follow each other, so the closed labels are one stretch of time with few
gaps: the document stays small for a history of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dil.model.books import Books
from dil.model.interval import Interval
from dil.model.json import JsonObject


def books_of(members: Mapping[str, Any]) -> Books:
    """Return the books of a checkpoint's members, empty ones where it has none."""
    return Books(
        closed=tuple(Interval(low, high) for low, high in members.get("closed", ())),
        reopened=dict(members.get("reopened", {})),
        next_low=members.get("nextLow"),
        first_low=members.get("firstLow"),
    )


def members_of(books: Books) -> JsonObject:
    """Return the members by which a checkpoint keeps books."""
    return {
        "closed": [[each.low, each.high] for each in books.closed],
        "reopened": dict(sorted(books.reopened.items())),
        "nextLow": books.next_low,
        "firstLow": books.first_low,
    }
