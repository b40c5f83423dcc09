"""Windows of event time over an input: their query, and the windows that a run closes.

Times and lengths are milliseconds; times and windows count from 1970-01-01T00:00:00Z.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

START, END = "window_start", "window_end"
# The column of the view with a row's event time, as a timestamp.
EVENT_TIME = "__dil_event_time"
# The lengths in the text of ``WindowSpec.query``, which the chain keeps of earlier windows.
_LENGTHS = re.compile(
    rf" GROUP BY window\({EVENT_TIME}, '([0-9]+) milliseconds', '([0-9]+) milliseconds'\)"
)


@dataclass(frozen=True, slots=True)
class Closing:
    """The windows that a run emits; they end after ``after_ms`` and at ``until_ms`` or before.

    ``after_ms`` is None if no window was emitted yet.
    """

    after_ms: int | None
    until_ms: int


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Windows of a size, one every ``slide_ms``; ``keys`` group the rows of each window.

    ``aggs`` are names of columns, each with an aggregate in Spark SQL.
    """

    column: str
    size_ms: int
    slide_ms: int
    keys: tuple[str, ...]
    aggs: tuple[tuple[str, str], ...]

    def query(self, view: str) -> str:
        """Return the query over a view that has ``EVENT_TIME``."""
        window = f"window({EVENT_TIME}, {_interval(self.size_ms)}, {_interval(self.slide_ms)})"
        keys = [quoted(name) for name in self.keys]
        columns = [f"window.start AS {START}", f"window.end AS {END}", *keys]
        columns += [f"{text} AS {quoted(name)}" for name, text in self.aggs]
        groups = ", ".join([window, *keys])
        parts = ["SELECT", ", ".join(columns), "FROM", quoted(view), "GROUP BY", groups]
        return " ".join(parts)  # the job's author wrote the aggregates, as SQL

    def closes_any(self, closing: Closing) -> bool:
        """Return whether a run that closes this stretch of time emits a window."""
        if closing.after_ms is None:
            return True
        return _last_end(self.size_ms, self.slide_ms, closing.until_ms) > closing.after_ms


def emitted_until(query: str, reached_ms: int) -> int:
    """Return the instant up to which a query has emitted its windows, at the watermark it reached.

    This is the last end of a window at the watermark or before: rows that came later were in no
    window that ends there or earlier. ``query`` is the text of ``WindowSpec.query``; for any other
    query the instant is the watermark itself. All times are epoch ms UTC.
    """
    lengths = _LENGTHS.search(query)
    if lengths is None:
        return reached_ms
    return _last_end(int(lengths[1]), int(lengths[2]), reached_ms)


def _last_end(size_ms: int, slide_ms: int, until_ms: int) -> int:
    """Return the last end of a window at an instant or before, in epoch ms UTC."""
    return until_ms - (until_ms - size_ms) % slide_ms


def quoted(name: str) -> str:
    """Return a name as a quoted identifier of Spark SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def _interval(length_ms: int) -> str:
    return f"'{length_ms} milliseconds'"
