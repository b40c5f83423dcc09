"""Batches of rows with event times, of which it is written down what Spark makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

Row = list[int | None]


@dataclass
class Script:
    """What engines read; ``batches[b][s]`` are the rows [id, time in ms] of stream s."""

    kind: str
    delays_ms: list[int]
    batches: list[list[list[Row]]]
    policy: str = "min"
    window_ms: int = 10_000
    stops: list[int] = field(default_factory=list)


def seconds(delays: Sequence[int], *batches: list[list[float]]) -> Script:
    """Return a script of times in seconds; the id of a row is its time in ms."""
    rows = [[[[round(s * 1000), round(s * 1000)] for s in stream] for stream in b] for b in batches]
    return Script("dedupe", [delay * 1000 for delay in delays], rows)


# The id of its rows is their number.
TRACE_A = Script(
    "windows",
    [5000],
    [
        [[[1, 5000], [2, 20_000]]],
        [[[3, 21_000]]],
        [[[4, 9000], [5, 14_000]]],
        [[[6, 25_000]]],
        [[[7, 19_000]]],
        [[[8, 19_000], [9, 20_000]]],
        [[[10, 100_000]]],
    ],
)
TRACE_B = seconds([5], [[10]], [[20]], [[0]], [[15]], [[15.001]], [[14]])
_UNION = ([[20], []], [[40], [5]], [[60], [12]], [[80], [30]])
TRACE_C_MIN = seconds([0, 10], *_UNION)
TRACE_C_MAX = replace(TRACE_C_MIN, policy="max")


class Windows:
    """Windows of a size in ms, to which rows come until a window is behind what judges them."""

    def __init__(self, size_ms: int) -> None:
        self._size = size_ms
        self._rows: dict[int, list[int | None]] = defaultdict(list)

    def add(self, row: Row, effective: int | None) -> None:
        """Take in a row [id, time], unless its window ends by the watermark that judges it."""
        ident, at = row
        start = None if at is None else at - at % self._size
        if start is not None and start + self._size > (effective or 0):
            self._rows[start].append(ident)

    def closed(self, mark: int) -> list[list[object]]:
        """Return the windows that end by a watermark, each once: [start, ids]."""
        ends = sorted(each for each in self._rows if each + self._size <= mark)
        return [[start, sorted(self._rows.pop(start))] for start in ends]  # type: ignore[type-var]
