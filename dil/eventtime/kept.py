"""The event watermark of a job between its runs, kept as the members of its checkpoint."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from dil.errors import ConfigError
from dil.eventtime.streams import SOURCE_DELAY_MS, quantile_of
from dil.eventtime.tally import StreamTally, decode_tallies, later_of, merge
from dil.eventtime.watermark import EventWatermark
from dil.model.event_tally import EventTally
from dil.model.event_time import EventTimeSpec, Strategy
from dil.model.json import JsonObject, JsonValue
from dil.model.report import EventCounts, EventSummary

_NAMES = 20
# In ms: a partition that has no rows in a run is at least this far behind the run's now.
_ONE_RUN_MS = 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptWatermark:
    """The kept event time of a job; times in epoch ms UTC.

    ``watermark`` is ready to judge the next rows. ``now`` is the planning time of the run that last
    moved the watermark, None if no run did. ``counts`` are the sums over all runs.
    """

    spec: EventTimeSpec
    watermark: EventWatermark
    now: int | None = None
    counts: EventCounts = field(default_factory=EventCounts)

    def after(self, tallies: Iterable[EventTally], now: int) -> KeptWatermark:
        """Return the event time to keep after a run with these tallies, in the plan's order.

        If no work unit was judged, the watermark stays, and no partition becomes idle.

        Raises:
            ConfigError: the rows belong to too many partitions, or to a partition without delay.
        """
        found, total = list(tallies), self.counts
        streams: dict[str, StreamTally] = {}
        for each in found:
            merge(streams, decode_tallies(each.streams), self.spec.adaptive.window)
            total = total.plus(each)
        if any(each.is_judged for each in found):
            moved = EventWatermark(_of_job(self.spec), state=self.watermark.state())
            moved.take(streams, now)
            return replace(self, watermark=moved, now=now, counts=total)
        return replace(self, counts=total)

    def members(self) -> JsonObject:
        """Return the members of the checkpoint."""
        return {
            "strategy": self.spec.strategy.value,
            "watermark": self.watermark.watermark,
            "effective": self.watermark.effective,
            "now": self.now,
            "counts": {each.name: getattr(self.counts, each.name) for each in fields(EventCounts)},
            "state": base64.b64encode(self.watermark.state()).decode(),
        }

    def summary(self, judged_by: int | None, counts: EventCounts, now: int) -> EventSummary:
        """Return the summary for people, after a run with these counts."""
        spec, streams = _of_job(self.spec), self.watermark.partitions
        idle = sorted(n for n, each in streams.items() if each.is_idle(now, spec.idle_ms))
        if spec.strategy is Strategy.FIXED_DELAY:
            idle = []
        bound, phase = _bound(spec, self.watermark, frozenset(idle))
        return EventSummary(
            column=spec.column,
            strategy=spec.strategy.value,
            action=spec.late_action,
            judged_by=judged_by,
            watermark=self.watermark.watermark,
            bound_ms=bound,
            phase=phase,
            partitions=len(streams),
            idle=tuple(idle[:_NAMES]),
            idle_partitions=len(idle),
            counts=counts,
        )


def open_kept(
    spec: EventTimeSpec, members: Mapping[str, JsonValue], *, floor: int | None = None
) -> KeptWatermark:
    """Return the event time that a checkpoint keeps; if the checkpoint is empty, no row is late.

    If the state cannot be read, the watermark starts over at the last value that the checkpoint
    keeps.
    """
    opened = None
    state, now, sums = members.get("state"), members.get("now"), members.get("counts")
    if isinstance(state, str):
        try:
            stored = base64.b64decode(state, validate=True)
            opened = EventWatermark(_of_job(spec), state=stored, floor=floor)
        except (ValueError, ConfigError) as error:
            log.warning("the state of the event watermark starts over: %s", error)
    if opened is None:
        last = members.get("watermark")
        lowest = later_of(last if isinstance(last, int) else None, floor)
        opened = EventWatermark(_of_job(spec), floor=lowest)
    known = sums if isinstance(sums, Mapping) else {}
    counts = {each.name: known.get(each.name) for each in fields(EventCounts)}
    return KeptWatermark(
        spec,
        opened,
        now if isinstance(now, int) else None,
        EventCounts(**{name: count for name, count in counts.items() if isinstance(count, int)}),
    )


def _of_job(spec: EventTimeSpec) -> EventTimeSpec:
    """Return the spec; if it sets no idle time, a partition is idle after one run without rows."""
    return replace(spec, idle_ms=_ONE_RUN_MS) if spec.idle_ms is None else spec


def _bound(
    spec: EventTimeSpec, watermark: EventWatermark, idle: frozenset[str]
) -> tuple[int | None, str]:
    """Return the bound in ms, and its phase, of the partition that holds the watermark back."""
    streams = watermark.partitions
    waited = {name: each for name, each in streams.items() if name not in idle} or streams
    if spec.strategy is Strategy.SYSTEM_TIME:
        return spec.delay_ms, ""
    if not waited or not spec.strategy.keeps_streams:
        return None, ""
    choose = max if spec.takes_max else min
    name = choose(waited, key=lambda each: waited[each].watermark)
    stream = waited[name]
    if spec.strategy is Strategy.SOURCE_180MS:
        return SOURCE_DELAY_MS, ""
    if spec.strategy is not Strategy.ADAPTIVE:
        return (spec.delay_of(name) if not spec.delays_ms or name in spec.delays_ms else None), ""
    adaptive = spec.adaptive
    bound = adaptive.bound_ms(quantile_of(stream.delays, adaptive), stream.rows)
    if not adaptive.is_warm(stream.rows):
        return bound, f"warm-up, {stream.rows:,} of {adaptive.margins[0][0] + 1:,} rows"
    margin = adaptive.margin_ms(stream.rows)
    return bound, f"measured, with a margin of {margin:,} ms" if margin else "measured"
