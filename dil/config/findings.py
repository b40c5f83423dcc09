"""Collects all problems of a configuration before raising an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dil.errors import ConfigError, Origin, Problem
from dil.sections.source import PROXY, URI

UNKNOWN = "is no known property"
RESOLVERS = "ms.secret.resolvers"
_NAME = re.compile(r"\w+(?:\.\w+)+")
# Addresses are plain texts: they cannot name a secret as a whole.
_IN_ADDRESSES = {
    URI: "Take it out of the address. Send it by a parameter, such as "
    'ms.parameters=[{"name": "api_key", "value": "env:NAME"}]; for a database, set '
    "source.conn.password.",
    PROXY: "Write user:${env:NAME}@host for the proxy.",
}


@dataclass(slots=True)
class Findings:
    """The problems of one configuration, which stop the job, and its notices, which do not.

    ``origins`` says where each key was written; findings about a key point there. ``infos`` are
    notices that only inform and ask for nothing. ``likely_typos`` are notices about unknown keys,
    by the property that may be meant. ``without_effect`` are properties that the job sets, that
    change nothing here, and whose effect users hardly miss. ``plain_secrets`` are properties that
    hold a secret in plain text.
    """

    origins: Mapping[str, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    infos: list[Problem] = field(default_factory=list)
    likely_typos: dict[str, Problem] = field(default_factory=dict)
    without_effect: list[str] = field(default_factory=list)
    plain_secrets: dict[str, Origin] = field(default_factory=dict)

    def problem(self, key: str, what: str, fix: str, origin: Origin | None = None) -> None:
        """Add a problem of one property; ``fix`` says what to write."""
        self.problems.append(Problem(origin or self.origins.get(key), key, what, fix))

    def notice(self, key: str, what: str, fix: str = "", origin: Origin | None = None) -> None:
        """Add a notice about one property."""
        self.notices.append(Problem(origin or self.origins.get(key), key, what, fix))

    def unused(self, names: Iterable[str], what: str, fix: str) -> None:
        """Add a notice about each of these properties that is set."""
        for name in sorted(self.origins.keys() & names):
            self.notice(name, what, fix)

    def misplaced(self, names: Iterable[str], what: str, fix: str) -> None:
        """Add a problem of each of these properties that is set."""
        for name in sorted(self.origins.keys() & names):
            self.problem(name, what, fix)

    def information(self, what: str, origin: Origin) -> None:
        """Add a notice that asks for nothing."""
        found = Problem(origin, "", what)
        self.notices.append(found)
        self.infos.append(found)

    def hint(self, key: str, what: str, fix: str) -> None:
        """Add a notice about one property that may stay as it is."""
        self.notice(key, what, fix)
        self.infos.append(self.notices[-1])

    def note_plain_secrets(self) -> None:
        """Add one note, with its fix, for all properties that hold a secret in plain text."""
        if not self.plain_secrets:
            return
        first, *others = self.plain_secrets
        also = f"; so {'does' if len(others) == 1 else 'do'} {', '.join(others)}" if others else ""
        taken = next((key for key in self.plain_secrets if key not in _IN_ADDRESSES), "")
        fixes = [
            f"Write env:NAME, file:PATH, or the ENC(...) that `dil secrets encrypt --key FILE --for"
            f" {taken}` makes."
        ] * bool(taken)
        fixes += [fix for key, fix in _IN_ADDRESSES.items() if key in self.plain_secrets]
        what = f"holds a secret in plain text{also}"
        found = Problem(self.plain_secrets[first], first, what, " ".join(fixes))
        self.notices.append(found)

    def likely_typo(self, key: str, meant: str, origin: Origin) -> None:
        """Add a notice about a key that is nearly the name of a property."""
        what = "is unknown, and no ${} refers to it"
        self.notice(key, what, f'Did you mean "{meant}"?', origin)
        self.likely_typos.setdefault(meant, self.notices[-1])

    def is_sound(self, *keys: str) -> bool:
        """Return whether these properties have no problem so far."""
        return not any(problem.key in keys for problem in self.problems)

    def raise_problems(self) -> None:
        """Raise all problems as one error.

        Raises:
            ConfigError: there is at least one problem; equal problems are named once. The error
                also has the notices.
        """
        if self.problems:
            if self.is_sound(RESOLVERS):  # else a text may be a reference of a wrong resolver
                self.note_plain_secrets()
            raise ConfigError(dict.fromkeys(self.problems), self._own_notices(), self.infos)

    def _own_notices(self) -> tuple[Problem, ...]:
        """Return the notices that do not follow from a problem.

        If a notice is about a property with a problem, or names that property, the check saw only
        the property's default. The same is true of a property that the file has under a wrong name.
        """
        wrong = {problem.key for problem in self.problems} - {""}
        unknown = [problem.fix for problem in self.problems if problem.what == UNKNOWN]
        wrong.update(meant for fix in unknown for meant in _NAME.findall(fix))

        def follows(notice: Problem) -> bool:
            words = f"{notice.key} {notice.what} {notice.fix}"
            return not wrong.isdisjoint(_NAME.findall(words))

        return tuple(each for each in self.sorted_notices() if not follows(each))

    def sorted_notices(self) -> tuple[Problem, ...]:
        """Return the notices in the order of file and line; equal notices come once."""
        return tuple(sorted(dict.fromkeys(self.notices), key=lambda notice: notice.sort_key))
