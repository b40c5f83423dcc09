"""Collecting everything that is wrong with a configuration before anything is raised."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dil.errors import ConfigError, Origin, Problem

REGEX_FIX = "Write a Java regular expression; a backslash of it is two in JSON."
DATE_PATTERN_FIX = "Write a Joda date pattern, for example yyyy-MM-dd'T'HH:mm:ss."
ZONE_FIX = "Use a region id such as Europe/Paris, or UTC."

_SHOWN_CHARACTERS = 60


@dataclass(slots=True)
class Findings:
    """Problems (the job cannot start) and notices (it can) of one configuration.

    ``origins`` tells where each key was written; findings about a key point there. ``infos`` are
    those notices that only say what is so, and ask for nothing. ``likely_typos`` are those about
    unknown keys, by the property that may be meant.
    """

    origins: Mapping[str, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    infos: list[Problem] = field(default_factory=list)
    likely_typos: dict[str, Problem] = field(default_factory=dict)

    def problem(self, key: str, what: str, fix: str, origin: Origin | None = None) -> None:
        """Add a problem of one property; ``fix`` says what to write."""
        self.problems.append(Problem(origin or self.origins.get(key), key, what, fix))

    def notice(self, key: str, what: str, fix: str = "", origin: Origin | None = None) -> None:
        """Add a notice about one property."""
        self.notices.append(Problem(origin or self.origins.get(key), key, what, fix))

    def information(self, what: str, origin: Origin) -> None:
        """Add a notice that asks for nothing."""
        found = Problem(origin, "", what)
        self.notices.append(found)
        self.infos.append(found)

    def likely_typo(self, key: str, meant: str, origin: Origin) -> None:
        """Add a notice about a key that is nearly the name of a property."""
        what = "is unknown, and no ${} refers to it"
        self.notice(key, what, f'Did you mean "{meant}"?', origin)
        self.likely_typos.setdefault(meant, self.notices[-1])

    def is_sound(self, *keys: str) -> bool:
        """Tell whether no problem was found with these properties so far."""
        return not any(problem.key in keys for problem in self.problems)

    def move(self, where: Callable[[Problem], Problem]) -> None:
        """Give every problem the origin that a function finds for it.

        Notices stay at their key's line: looking inside a value takes longer than planning.
        """
        self.problems = [where(problem) for problem in self.problems]

    def raise_problems(self) -> None:
        """Raise what was found.

        Raises:
            ConfigError: there is at least one problem; equal ones are named once.
        """
        if self.problems:
            raise ConfigError(dict.fromkeys(self.problems))

    def sorted_notices(self) -> tuple[Problem, ...]:
        """Return the notices by file and line, equal ones once."""
        return tuple(sorted(dict.fromkeys(self.notices), key=lambda notice: notice.sort_key))


def quote(text: str) -> str:
    """Return a value for a message: in quotes, on one line, cut when long."""
    flat = " ".join(text.split())
    cut = flat if len(flat) <= _SHOWN_CHARACTERS else f"{flat[:_SHOWN_CHARACTERS]}..."
    return f'"{cut}"'


def suggestion(text: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """Return ``Did you mean "...?"`` with the nearest known word, empty text without one."""
    near = nearest_word(text, known, cutoff=cutoff)
    return f'Did you mean "{near}"?' if near else ""


def nearest_word(text: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """Return the nearest known word, in any letter case; empty text where none is near."""
    by_lower = {word.lower(): word for word in known}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else ""


def nearest(text: str, known: Iterable[str], otherwise: str) -> str:
    """Return the suggestion for a word, or another fix where no known word is near."""
    return suggestion(text, known) or otherwise


def known_words(text: str, known: Iterable[str]) -> str:
    """Return the suggestion for a word, followed by all known words."""
    words = tuple(known)
    # Of few words the nearest may be farther: GTE is GET.
    return f"{suggestion(text, words, cutoff=0.6)} Known values: {', '.join(words)}.".strip()
