"""Shortens texts of other programs for our messages."""

from __future__ import annotations

SHOWN_CHARACTERS = 200


def shortened(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    r"""Return a text on one line of at most ``limit`` characters; ``...`` marks the cut.

    A whole payload may stand in an exception. The cut is at a blank where there is one near it, so
    that no half of a word is left over; still, mask secrets before you shorten, not after.

    >>> shortened("no  such\\n unit", 11)
    'no such...'
    """
    line = " ".join(text[: 4 * limit].split())
    if len(line) <= limit and len(text) <= 4 * limit:
        return line
    cut = line[: limit - 3]
    head, _, _ = cut.rpartition(" ")
    return f"{head if 2 * len(head) >= len(cut) else cut}..."
