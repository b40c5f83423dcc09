"""Laws of planning: partitions tile, every instant is planned once, coverage is only cheaper."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.history import Coverage, UnitRecord
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec
from dil.model.work_unit import Plan
from dil.planning import BareHistory, plan
from dil.planning.partitions import Partitions, partition
from dil.text.joda import compile_pattern
from dil.text.zones import ABBREVIATIONS, EPOCH, find_zone, gap_at, to_local

WORDS = ("none", "hourly", "daily", "weekly", "monthly", "yearly")
SPANS = {"none": 9000, "hourly": 6, "daily": 500, "weekly": 2500, "monthly": 9000, "yearly": 25000}
# Half-hour changes, midnight changes, skipped days, far west and east, and no changes at all.
ZONES = (
    "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Beirut",
    "America/Sao_Paulo", "Pacific/Apia", "Pacific/Kwajalein", "Africa/Casablanca", "America/Havana",
    "Antarctica/Troll", "Pacific/Kiritimati", "Atlantic/Azores", "UTC", "+05:45", "-09:30",
)  # fmt: skip
WRITTEN_TIME = "{:%Y-%m-%d %H:%M:%S}"
WRITTEN = compile_pattern("yyyy-MM-dd'T'HH:mm:ss.SSSZZ")
LATEST = 2_145_916_800_000  # 2038-01-01

EVERY_ZONE = sorted(
    name
    for name in available_timezones()
    if not name.startswith(("posix", "right/"))
    and name not in ("localtime", "Factory")
    and name not in ABBREVIATIONS  # EST and others mean a region with its summer time
)

zones = st.one_of(st.sampled_from(ZONES), st.sampled_from(EVERY_ZONE))
words = st.sampled_from(WORDS)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[PlanningSpec, int, int]:
    """Return a spec whose range is given by durations before now, and the range's two ends.

    Durations give each zone's own calendar to the partitions, which written offsets do not.
    """
    word = draw(words)
    zone = draw(zones)
    now = draw(st.integers(DAY_MS, LATEST))
    days = draw(st.integers(0, min(SPANS[word], now // DAY_MS)))
    hours, minutes = draw(st.integers(0, 23)), draw(st.integers(0, 59))
    spec = PlanningSpec(
        start=f"P{days}DT{hours}H{minutes}M", end="-", partition=word, zone=zone, limit=None
    )
    whole = partition(replace(spec, partition="none"), now_ms=now)
    low, high = (whole.starts[0], whole.ends[0]) if whole else (0, 0)
    return spec, low, high if whole else 0


@given(ranges())
@settings(max_examples=150, deadline=None)
def test_partitions_tile_their_range_without_gap_or_overlap(
    made: tuple[PlanningSpec, int, int],
) -> None:
    spec, low, high = made
    found = partition(spec, now_ms=high)

    if low < high:
        assert found.starts[0] == low
        assert found.ends[-1] == high
    assert all(start < end for start, end in zip(found.starts, found.ends, strict=True))
    assert [*found.ends][:-1] == [*found.starts][1:]


@given(ranges())
@settings(max_examples=100, deadline=None)
def test_full_partitions_are_those_of_the_partial_plan_less_a_short_last_one(
    made: tuple[PlanningSpec, int, int],
) -> None:
    spec, _, high = made
    every = partition(spec, now_ms=high)
    full = partition(replace(spec, partial=False), now_ms=high)

    assert len(every) - len(full) in (0, 1)
    assert [*full.starts] == [*every.starts][: len(full)]
    assert [*full.ends] == [*every.ends][: len(full)]


@given(ranges(), st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_partitions_do_not_move_when_to_moves_on(
    made: tuple[PlanningSpec, int, int], days: int
) -> None:
    spec, low, high = made
    if low >= high:
        return
    fixed = replace(spec, start=f"{WRITTEN.format(low, 'UTC')}", zone="UTC")

    first = partition(fixed, now_ms=high)
    later = partition(fixed, now_ms=high + days * DAY_MS)

    assert [*later.starts][: len(first)] == [*first.starts]


@given(zones, st.integers(0, LATEST), st.integers(1, 400), st.sampled_from(WORDS[2:]))
@settings(max_examples=150, deadline=None)
def test_boundaries_keep_their_local_time_except_in_gaps(
    zone: str, start: int, days: int, word: str
) -> None:
    spec = PlanningSpec(start=f"P{days}DT0M", end="-", partition=word, zone=zone)

    found = partition(spec, now_ms=start + days * DAY_MS)

    local = [to_local(ms, find_zone(zone)).replace(tzinfo=None, fold=0) for ms in found.starts]
    for time in local:
        nominal = datetime.combine(time, local[0].time())
        assert (
            time == nominal
            or gap_at(nominal, find_zone(zone))
            or gap_at(nominal - timedelta(days=1), find_zone(zone))
        )


MOST_STEPS = {"daily": 1100, "weekly": 160, "monthly": 38, "yearly": 5}  # of three years


def _steps_later(local: datetime, word: str, k: int) -> datetime:
    """Return a local time k steps on, by counting months one by one."""
    if word in ("daily", "weekly"):
        return local + timedelta(days=k * (7 if word == "weekly" else 1))
    year, month = local.year, local.month
    for _ in range(k * (12 if word == "yearly" else 1)):
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    for day in (local.day, 30, 29, 28):
        try:
            return local.replace(year=year, month=month, day=day)
        except ValueError:
            continue
    raise AssertionError("every month has 28 days")


def _at(local: datetime, zone: ZoneInfo) -> int:
    """Return the epoch ms of a local time: in a gap later by the gap, in an overlap the earlier."""
    return round((local.replace(tzinfo=zone, fold=0) - EPOCH).total_seconds() * 1000)


@pytest.mark.parametrize("word", WORDS[1:])
def test_in_every_zone_boundary_k_is_from_plus_k_local_steps(word: str) -> None:
    """From 1970 to 2037, from a time that clocks skip somewhere each year, to a month's end."""
    for number, name in enumerate(EVERY_ZONE):
        zone = ZoneInfo(name)
        year = 1970 + number % 66
        first = datetime(year, 1 + number % 12, (31, 29, 7)[number % 3] % 29 + 1, 2, 30)  # noqa: DTZ001
        low, last = _at(first, zone), _at(datetime(year + 2, 1, 1), zone)  # noqa: DTZ001
        high = low + 26 * 3_600_000 if word == "hourly" else last
        spec = PlanningSpec(
            start=WRITTEN_TIME.format(first) + name if gap_at(first, zone) is None else "P1D",
            end=WRITTEN.format(high, "UTC"),
            partition=word,
            zone=name,
        )
        found = partition(spec, now_ms=low)
        if word == "hourly":
            wanted = [*range(found.starts[0], high, 3_600_000)]
        else:
            begin = to_local(found.starts[0], zone).replace(tzinfo=None, fold=0)
            steps = [_at(_steps_later(begin, word, k), zone) for k in range(MOST_STEPS[word])]
            wanted = sorted({found.starts[0], *(ms for ms in steps[1:] if ms < high)})
        assert [*found.starts] == wanted, name
        assert [*found.ends] == [*wanted[1:], high], name


units = st.lists(
    st.sampled_from(['{"id":"a"}', '{"id":"b"}', '{"id":"c/d"}']), min_size=1, unique=True
)


@given(
    st.sampled_from(("none", "daily", "weekly")),
    units,
    st.integers(1, 40),
    st.integers(1, 7),
)
@settings(max_examples=60, deadline=None)
def test_several_limited_runs_plan_every_instant_once_and_then_nothing(
    word: str, unit_texts: list[str], days: int, limit: int
) -> None:
    now = 1_600_000_000_000
    spec = PlanningSpec(
        start=f"P{days}D", end="P0D", partition=word, units=tuple(unit_texts), limit=limit
    )
    history: dict[str, int | UnitRecord] = {}
    planned: dict[str, list[tuple[int, int]]] = {unit: [] for unit in unit_texts}
    runs = 0
    while (made := plan(spec, now_ms=now, history=BareHistory(history))).work_units:
        runs += 1
        for unit in made.work_units:
            planned[unit.unit_json].append((unit.low, unit.high))
            history[unit.signature] = unit.high

    whole = partition(spec, now_ms=now)
    assert all(
        sorted(windows) == [*zip(whole.starts, whole.ends, strict=True)]
        for windows in planned.values()
    )
    assert runs == -(-len(whole) * len(unit_texts) // limit)
    assert (made.skipped, made.left) == (len(whole) * len(unit_texts), 0)


class CoveredHistory:
    """Records with coverage rows, as a state store keeps them."""

    def __init__(
        self, records: Mapping[str, UnitRecord], partitions: Partitions, keys: list[str]
    ) -> None:
        self._records = records
        self._rows: dict[str, Coverage] = {}
        for key in keys:
            mine = {record.low: record for record in self._of(key).values()}
            if mine:
                self._rows[key] = _coverage(mine, partitions)

    def _of(self, key: str) -> Mapping[str, UnitRecord]:
        return {s: record for s, record in self._records.items() if s.endswith(f"watermark.{key}]")}

    def has_succeeded(self) -> bool:
        return any(record.succeeded_once for record in self._records.values())

    def coverage(self, unit_key: str) -> Coverage | None:
        return self._rows.get(unit_key)

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        return {s: record for s, record in self._of(unit_key).items() if low <= record.low < high}

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        found = self._of(unit_key).items()
        return {s: record for s, record in found if record.failed or not record.succeeded_once}


def _coverage(mine: Mapping[int, UnitRecord], partitions: Partitions) -> Coverage:
    """Return the row over the longest run of consecutive partitions that succeeded."""
    best = run = range(0)
    for index, low in enumerate(partitions.starts):
        is_good = low in mine and mine[low].succeeded_once
        run = range(run.start, index + 1) if is_good else range(index + 1, index + 1)
        best = max(best, run, key=len)
    return Coverage(
        partitions.starts[best[0]] if best else 0,
        partitions.ends[best[-1]] if best else 0,
        max((record.high for record in mine.values() if record.high is not None), default=0),
        sum(record.failed or not record.succeeded_once for record in mine.values()),
    )


@st.composite
def recorded(draw: st.DrawFn) -> tuple[PlanningSpec, dict[str, UnitRecord], Partitions, int]:
    """Return a spec, records of some of its work units and of others, its partitions, and now."""
    now = 1_600_000_000_000
    spec = PlanningSpec(
        start=f"P{draw(st.integers(1, 12))}D",
        end="P0D",
        partition="daily",
        units=tuple(draw(units)),
        grace_ms=draw(st.integers(0, 4)) * DAY_MS // 2,
        abstinent_ms=draw(st.integers(0, 4)) * DAY_MS // 2,
        limit=draw(st.sampled_from((None, 1, 2, 5, 500))),
        read_from_partition_start=draw(st.booleans()),
    )
    partitions = partition(spec, now_ms=now)
    records: dict[str, UnitRecord] = {}
    for unit in (*(spec.units or ()), '{"id":"gone"}'):
        for index in range(len(partitions)):
            kind = draw(
                st.sampled_from(("good", "good", "good", "part", "failed", "none", "again"))
            )
            low, end = partitions.starts[index], partitions.ends[index]
            high = {"part": low + (end - low) // 2, "failed": None}.get(kind, end)
            if kind != "none":
                signature = f"[watermark.datetime.{low}, watermark.unit.{unit}]"
                records[signature] = UnitRecord(
                    signature, low, high, kind in ("failed", "again"), draw(st.integers(1, 3))
                )
    if draw(st.booleans()):  # a record of a partition that is no longer planned
        low = draw(st.integers(partitions.starts[0] - 5 * DAY_MS, partitions.ends[-1]))
        stray = (
            f"[watermark.{draw(st.sampled_from(('datetime', 'old')))}.{low}, watermark.unit.{{}}]"
        )
        stray = stray.replace("{}", (spec.units or ("{}",))[0])
        if bisect_left([*partitions.starts], low) == len(partitions) or stray not in records:
            records[stray] = UnitRecord(stray, low, low + 3 * DAY_MS)
    return spec, records, partitions, now


def _without_order(made: Plan) -> tuple[object, ...]:
    return (made.work_units, made.cutoff, made.skipped, made.left, made.left_low)


@given(recorded())
@settings(max_examples=250, deadline=None)
def test_coverage_rows_change_the_cost_of_a_plan_and_nothing_else(
    made: tuple[PlanningSpec, dict[str, UnitRecord], Partitions, int],
) -> None:
    spec, records, partitions, now = made
    keys = [f"unit.{unit}" for unit in spec.units or ()]

    bare = plan(spec, now_ms=now, history=BareHistory(records))
    covered = plan(spec, now_ms=now, history=CoveredHistory(records, partitions, keys))

    assert _without_order(covered) == _without_order(bare)
    assert bare.skipped + bare.left + len(bare.work_units) == len(partitions) * len(keys)


@given(recorded())
@settings(max_examples=60, deadline=None)
def test_an_explained_plan_is_the_same_plan_and_explains_every_skip(
    made: tuple[PlanningSpec, dict[str, UnitRecord], Partitions, int],
) -> None:
    spec, records, partitions, now = made
    keys = [f"unit.{unit}" for unit in spec.units or ()]
    history = CoveredHistory(records, partitions, keys)

    short = plan(spec, now_ms=now, history=history)
    explained = plan(spec, now_ms=now, history=history, explain=True)

    assert _without_order(explained) == _without_order(short)
    assert len(explained.skips) == explained.skipped


@given(recorded())
@settings(max_examples=60, deadline=None)
def test_work_units_have_something_to_read_and_stay_in_their_partition(
    made: tuple[PlanningSpec, dict[str, UnitRecord], Partitions, int],
) -> None:
    spec, records, _, now = made

    found = plan(spec, now_ms=now, history=BareHistory(records)).work_units

    assert all(unit.partition.low <= unit.low < unit.high == unit.partition.high for unit in found)
    assert len({unit.signature for unit in found}) == len(found)
    assert spec.limit is None or len(found) <= spec.limit
