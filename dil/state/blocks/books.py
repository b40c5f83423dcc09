"""The books in a checkpoint: an index of the CloseBooks and ReopenBooks blocks.

The windows of a schedule adjoin each other, so the closed labels are one interval with few gaps:
the document stays small for a history of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dil.model.books import Books
from dil.model.interval import Interval
from dil.model.json import JsonObject


def books_of(members: Mapping[str, Any]) -> Books:
    """Return the books in a checkpoint's members; empty books if it has none."""
    reopened = dict(members.get("reopened", {}))
    return Books(
        closed=tuple(Interval(low, high) for low, high in members.get("closed", ())),
        reopened=reopened,
        # An earlier release closes labels without changing this member.
        read_again=frozenset(members.get("readAgain", ())) & reopened.keys(),
        next_low=members.get("nextLow"),
        first_low=members.get("firstLow"),
    )


def members_of(books: Books) -> JsonObject:
    """Return the checkpoint members that store books."""
    return {
        "closed": [[each.low, each.high] for each in books.closed],
        "reopened": dict(sorted(books.reopened.items())),
        "readAgain": sorted(books.read_again),
        "nextLow": books.next_low,
        "firstLow": books.first_low,
    }
