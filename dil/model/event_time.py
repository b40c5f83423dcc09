"""Settings of event time: the watermark that decides which rows are late, and their treatment.

All times and lengths are whole milliseconds; times are counted from 1970-01-01T00:00:00Z. A stream,
such as the rows of one device, is called a partition in properties and docs (``dil.eventtime``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from dil.model.interval import DAY_MS

# Larger out-of-orderness is kept as this value: no bound is larger, and it fits 32 bits.
MAX_BOUND_MS = 7 * DAY_MS


class Strategy(StrEnum):
    """How a watermark follows the event times of a dataset."""

    NONE = "none"
    FIXED_DELAY = "fixed_delay"
    BOUNDED = "bounded"
    ADAPTIVE = "adaptive"
    SOURCE_180MS = "source_180ms"
    SYSTEM_TIME = "system_time"
    MANUAL = "manual"

    @property
    def needs_delay(self) -> bool:
        """Return whether the strategy needs a delay."""
        return self in {Strategy.FIXED_DELAY, Strategy.BOUNDED, Strategy.SYSTEM_TIME}

    @property
    def keeps_streams(self) -> bool:
        """Return whether the watermark is combined from the watermarks of streams."""
        return self not in {Strategy.NONE, Strategy.SYSTEM_TIME, Strategy.MANUAL}


@dataclass(frozen=True, slots=True)
class AdaptiveBound:
    """The settings by which the adaptive strategy finds its bound from earlier out-of-orderness.

    The bound is the ``quantile`` of the last ``window`` rows of a stream, plus the margin of its
    row count, and at least ``low_ms`` and at most ``high_ms``. ``margins`` are pairs (up to n rows,
    ms), ascending; the first pair is the warm-up.
    """

    window: int = 5000
    quantile: Fraction = Fraction(95, 100)
    low_ms: int = 50
    high_ms: int = MAX_BOUND_MS
    margins: tuple[tuple[int, int], ...] = (
        (250, MAX_BOUND_MS),
        (500, 30_000),
        (750, 10_000),
        (1000, 1000),
    )

    def rank(self, count: int) -> int:
        """Return the rank of the quantile among ``count`` ascending values, counted from 1."""
        return max(1, -(-count * self.quantile.numerator // self.quantile.denominator))

    def margin_ms(self, rows: int) -> int:
        """Return the margin in ms that is added to a stream's quantile after a number of rows."""
        return next((margin for most, margin in self.margins if rows <= most), 0)

    def bound_ms(self, quantile_ms: int, rows: int) -> int:
        """Return the bound in ms: the out-of-orderness that the strategy assumes."""
        return min(max(quantile_ms + self.margin_ms(rows), self.low_ms), self.high_ms)

    def is_warm(self, rows: int) -> bool:
        """Return whether a stream has had more rows than the first margin covers."""
        return not self.margins or rows > self.margins[0][0]


@dataclass(frozen=True, slots=True)
class EventTimeSpec:
    """The settings of event time.

    ``delay_ms`` is the delay of all streams, or ``delays_ms`` has the delay of each by name;
    the streams in ``delays_ms`` are known before they have rows. ``idle_ms`` is None if streams
    never become idle. ``lags`` says that the watermark of the batch before the last one judges
    rows, as in Spark. ``is_inclusive`` says that a row at the watermark is late, as in Spark.
    ``late_action`` is empty if late rows are only counted. ``reads_on`` says that requests ask for
    rows from the low watermark on, so that the rows after an earlier reading are new.
    """

    strategy: Strategy = Strategy.NONE
    column: str = ""
    delay_ms: int | None = None
    delays_ms: Mapping[str, int] = field(default_factory=dict)
    stream_column: str = ""
    idle_ms: int | None = None
    takes_max: bool = False
    in_arrival_order: bool = False
    holds_in_warmup: bool = True
    most_streams: int = 1000
    nulls: str = "keep"
    max_future_ms: int = DAY_MS
    adaptive: AdaptiveBound = AdaptiveBound()
    late_action: str = ""
    is_inclusive: bool = False
    lags: bool = False
    reads_on: bool = False

    def delay_of(self, stream: str) -> int:
        """Return the delay of a stream in ms.

        Raises:
            KeyError: the delays name other streams only.
        """
        if self.delays_ms:
            return self.delays_ms[stream]
        return self.delay_ms or 0
