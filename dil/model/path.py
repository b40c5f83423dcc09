"""A path to a place in a document: its text, and the steps that lead there.

A text that is ``$`` or begins with ``$.`` or ``$[`` is JSONPath; every other text, such as ``$id``,
is a dot path (rule F12).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

Step: TypeAlias = str | int
Steps: TypeAlias = tuple[Step, ...]

# Names that JSONPath reads behind a dot, as the grammar of jsonpath-ng has them.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KEYWORDS = frozenset({"where", "wherenot"})


class Reach(Enum):
    """The reach of a path: one place, all children of this place, or the results of a search."""

    PLACE = "place"
    CHILDREN = "children"
    SEARCH = "search"


class JsonPathError(ValueError):
    """A text begins like JSONPath and is none.

    ``position`` is the place of the wrong character, counted from 1.
    """

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} at character {self.position}" if self.position else self.reason


class Missing:
    """The type of MISSING: the value at a path that does not exist; it differs from null."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Path:
    """A compiled path.

    ``steps`` lead from the root to one place. A step that is a name means a member of an object. If
    the name is a number and the value is an array, the step means an element; -1 is the last one. A
    step that is an int means only an element. The results of a search are at or below the steps.
    """

    text: str
    steps: Steps
    reach: Reach = Reach.PLACE

    @property
    def is_place(self) -> bool:
        """Return whether the path can mean only one place."""
        return self.reach is Reach.PLACE

    @property
    def name(self) -> str:
        """Return the name of the value at the path, empty if it has none."""
        last = self.steps[-1] if self.is_place and self.steps else ""
        return last if isinstance(last, str) else ""

    def shown(self, steps: Steps) -> str:
        """Return the text of other steps in the notation of this path."""
        if not is_jsonpath(self.text):
            return ".".join(map(str, steps))
        return "$" + "".join(map(_shown_step, steps))


def is_jsonpath(text: str) -> bool:
    """Return whether a text is JSONPath, and not a dot path."""
    return text == "$" or text.startswith(("$.", "$["))


def number(step: Step) -> int | None:
    """Return a step as a number (below 0: from the end); None if it is a name."""
    if isinstance(step, int):
        return step
    digits = step.removeprefix("-")
    return int(step) if digits.isascii() and digits.isdigit() else None


def _shown_step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN_NAME.fullmatch(step) and step not in _KEYWORDS:
        return f".{step}"
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
