"""Shortens the texts of other programs that our messages quote."""

from __future__ import annotations

SHOWN_CHARACTERS = 200


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
