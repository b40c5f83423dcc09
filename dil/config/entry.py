"""One property as written in a file or on the command line."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from dil.errors import Origin


@dataclass(frozen=True, slots=True)
class Entry:
    """A key, its text, and the place of the key.

    ``breaks`` are the offsets in ``text`` at which the next physical line of the file starts.
    ``is_masked`` says that the text holds a value from the environment, never to be printed.
    ``overruled`` is the text that the job's files alone give, if ``-D`` changes it.
    """

    key: str
    text: str
    origin: Origin
    breaks: tuple[int, ...] = ()
    is_masked: bool = False
    overruled: str = ""

    def origin_at(self, offset: int) -> Origin:
        """Return the place of one character of the text."""
        if self.origin.line is None:
            return self.origin
        return Origin(self.origin.path, self.origin.line + bisect_right(self.breaks, offset))

    def origin_of_line(self, line: int) -> Origin:
        """Return the place of a line of the text, counted from 0."""
        starts = [0, *(index + 1 for index, letter in enumerate(self.text) if letter == "\n")]
        return self.origin_at(starts[min(line, len(starts) - 1)])
