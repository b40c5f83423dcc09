"""Shortens texts and names of other programs that our messages quote."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN_CHARACTERS = 200
SHOWN_NAMES = 10
_NAME_CHARACTERS = 40


def shortened(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    r"""Return a text on one line of at most ``limit`` characters; ``...`` marks the cut.

    An exception may hold a whole payload. The text is cut at a blank if one is near, so that no
    half of a word remains. Mask secrets before you shorten a text, not after.

    >>> shortened("no  such\\n unit", 11)
    'no such...'
    """
    line = " ".join(text[: 4 * limit].split())
    if len(line) <= limit and len(text) <= 4 * limit:
        return line
    cut = line[: limit - 3]
    head, _, _ = cut.rpartition(" ")
    return f"{head if 2 * len(head) >= len(cut) else cut}..."


def short_name(name: str) -> str:
    """Return the name of a source's column or member for a message."""
    return shortened(name, _NAME_CHARACTERS)


def listed(names: Sequence[str]) -> str:
    """Return the first names of a source's columns or members, and how many others there are."""
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(map(short_name, names[:SHOWN_NAMES]))
    return f"{shown} and {more:,} more" if more > 0 else shown
