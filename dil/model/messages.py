"""Words for messages: shortened texts of other programs, quoted values, the nearest known word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

REGEX_FIX = "Write a Java regular expression; write each backslash twice in JSON."
DATE_PATTERN_FIX = "Write a Joda date pattern, for example yyyy-MM-dd'T'HH:mm:ss."
ZONE_FIX = "Use a region id such as Europe/Paris, or UTC."

SHOWN_CHARACTERS = 200
SHOWN_NAMES = 10
_NAME_CHARACTERS = 40
_QUOTED_CHARACTERS = 60
_LEAST_SHARED_WORDS, _MOST_SUGGESTIONS = 2, 3


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


def quote(text: str) -> str:
    """Return a value for a message: in quotes, on one line, and cut if it is long."""
    flat = " ".join(text.split())
    cut = flat if len(flat) <= _QUOTED_CHARACTERS else f"{flat[:_QUOTED_CHARACTERS]}..."
    return f'"{cut}"'


def suggestion(text: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """Return ``Did you mean "...?"`` with the nearest known word; empty text if none is near."""
    near = nearest_word(text, known, cutoff=cutoff)
    return f'Did you mean "{near}"?' if near else ""


def nearest_word(text: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """Return the nearest known word, in any letter case; empty text if none is near."""
    by_lower = {word.lower(): word for word in known}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else ""


def property_suggestion(key: str, known: Iterable[str]) -> str:
    """Return ``Did you mean "..." or "..."?`` for a property's name; empty text if none is near.

    If no whole name is near, the names that share the most words with the key are suggested, if
    they share at least two words. For example, ms.http.retry.max is suggested for
    ms.retry.max.attempts.
    """
    near = nearest_word(key, known)
    if near:
        return f'Did you mean "{near}"?'
    words = set(key.lower().split(".")[1:])
    shared = {name: len(words & set(name.split(".")[1:])) for name in known}
    most = max(shared.values(), default=0)
    found = [name for name, count in shared.items() if count == most]
    if most < _LEAST_SHARED_WORDS or len(found) > _MOST_SUGGESTIONS:
        return ""
    return f"Did you mean {' or '.join(map(quote, found))}?"


def nearest(text: str, known: Iterable[str], otherwise: str) -> str:
    """Return the suggestion for a word, or another fix if no known word is near."""
    return suggestion(text, known) or otherwise


def known_words(text: str, known: Iterable[str]) -> str:
    """Return the suggestion for a word, followed by all known words."""
    words = tuple(known)
    # Among few words the nearest one may differ more: GET for GTE.
    return f"{suggestion(text, words, cutoff=0.6)} Known values: {', '.join(words)}.".strip()
