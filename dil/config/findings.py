"""Collecting everything that is wrong with a configuration before anything is raised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dil.errors import ConfigError, Origin, Problem


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
        """Return whether no problem was found with these properties so far."""
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
