"""Laws of timelabels: windows tile time, labels are unique, fires follow the clock on the wall."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import islice

from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dil.errors import ConfigError
from dil.model.interval import Interval
from dil.model.job import PlanningSpec
from dil.model.timelabels import LabelUnit, TimelabelSpec
from dil.planning import BareHistory, plan
from dil.planning.partitions import partition, partition_from
from dil.planning.timelabels import timelabels
from dil.text.cron import Cron, CronError, Level, parse_cron
from dil.text.windows import label_text, windows_of
from dil.text.zones import find_zone, to_local

MINUTE_MS, DAY_MS = 60_000, 86_400_000
LATEST = 2_145_916_800_000  # 2038-01-01
# Half-hour changes, midnight changes, skipped days, quarters of an hour, and no changes at all.
ZONES = (
    "America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe",
    "Asia/Beirut", "America/Sao_Paulo", "Pacific/Apia", "Pacific/Kwajalein", "Africa/Casablanca",
    "America/Havana", "Antarctica/Troll", "Pacific/Kiritimati", "Pacific/Chatham", "Asia/Gaza",
    "Atlantic/Azores", "America/St_Johns", "Asia/Pyongyang", "Europe/Dublin", "Africa/Monrovia",
    "UTC", "+05:45", "-09:30",
)  # fmt: skip


def steps(highest: int) -> st.SearchStrategy[str]:
    """Return lists, ranges and steps of a field that counts from 0."""
    numbers = st.integers(0, highest)
    ranges = st.tuples(numbers, numbers, st.integers(1, highest)).map(
        lambda made: f"{min(made[:2])}-{max(made[:2])}/{made[2]}"
    )
    return st.one_of(
        st.just("*"),
        numbers.map(str),
        st.lists(numbers, min_size=2, max_size=3).map(lambda made: ",".join(map(str, made))),
        st.integers(1, highest).map(lambda step: f"*/{step}"),
        ranges,
    )


crons = st.builds(
    lambda *fields: " ".join(fields),
    steps(59),
    steps(23),
    st.sampled_from(("*", "*", "*", "1", "1,15", "29", "31", "*/2", "28-31")),
    st.sampled_from(("*", "*", "*", "2", "1,4,7,10", "*/5")),
    st.sampled_from(("*", "*", "*", "1", "1-5", "0", "sat,7", "*/2")),
)
zones = st.sampled_from(ZONES)


@lru_cache(maxsize=len(ZONES))
def days_of_change(zone: str) -> tuple[int, ...]:
    """Return the days, as epoch ms, on which the zone's clocks change between 1970 and 2037."""
    found = find_zone(zone)
    offsets = [to_local(at, found).utcoffset() for at in range(0, LATEST, DAY_MS)]
    changes = [day for day in range(1, len(offsets)) if offsets[day] != offsets[day - 1]]
    return tuple((day - 1) * DAY_MS for day in changes)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    """Return a zone and an instant, half of them about a change of its clocks."""
    zone = draw(zones)
    changes = days_of_change(zone)
    if changes and draw(st.booleans()):
        at = draw(st.sampled_from(changes)) + draw(st.integers(0, DAY_MS // MINUTE_MS)) * MINUTE_MS
    else:
        at = draw(st.integers(0, LATEST))
    return zone, at


def parsed(cron: str) -> Cron:
    try:
        return parse_cron(cron)
    except CronError:
        assume(condition=False)
        raise


def fires(cron: Cron, zone: str, low: int, high: int) -> list[int]:
    where = find_zone(zone)
    if cron.level < Level.DAY:
        return cron.by_clock(where, low, high)
    return [at for at, _ in cron.by_date(where, low, high)]


@given(crons, moments())
@settings(max_examples=150, deadline=None)
def test_windows_tile_time_and_their_labels_are_unique(cron: str, moment: tuple[str, int]) -> None:
    parsed(cron)
    zone, at = moment
    windows = windows_of(TimelabelSpec(schedule=cron, zone=zone))

    walked = [windows.at(at)]
    for _ in range(8):
        walked.append(windows.at(walked[-1].high))
    assert walked[0].low <= at < walked[0].high
    assert all(not window.is_empty for window in walked)
    assert [each.high for each in walked[:-1]] == [each.low for each in walked[1:]]
    labels = [label_text(window.low) for window in walked]
    assert labels == sorted(set(labels))


@given(crons, moments(), st.integers(0, 40 * DAY_MS))
@settings(max_examples=100, deadline=None)
def test_a_window_does_not_depend_on_what_was_asked_before(
    cron: str, moment: tuple[str, int], later: int
) -> None:
    parsed(cron)
    zone, at = moment
    spec = TimelabelSpec(schedule=cron, zone=zone)
    used = windows_of(spec)
    used.at(at + later)
    window = used.at(at)

    assert windows_of(spec).at(window.high - 1) == window
    assert used.at(window.low) == window


@given(crons, moments())
@settings(max_examples=100, deadline=None)
def test_a_run_never_starts_before_its_window_is_over(cron: str, moment: tuple[str, int]) -> None:
    found = parsed(cron)
    zone, now = moment
    windows = windows_of(TimelabelSpec(schedule=cron, zone=zone))
    window = windows.of_run(now)

    assert window.high <= now
    # Its end is the start of a window, which a fire between there and now has reached.
    assert windows.at(window.high - 1) == window
    assert fires(found, zone, window.high, now + 1)


@given(crons, st.integers(0, LATEST))
@settings(max_examples=100, deadline=None)
def test_without_clock_changes_fires_are_those_of_cronsim(cron: str, at: int) -> None:
    found = parsed(cron)
    after = to_local(at, UTC).replace(microsecond=0)
    expected = [round(fire.timestamp() * 1000) for fire in islice(CronSim(cron, after), 20)]

    low = round(after.timestamp() * 1000) + 1
    assert fires(found, "UTC", low, expected[-1] + 1) == expected


@given(crons, moments())
@settings(max_examples=60, deadline=None)
def test_fires_are_what_a_clock_on_the_wall_would_show(cron: str, moment: tuple[str, int]) -> None:
    found = parsed(cron)
    zone, at = moment
    low = at // MINUTE_MS * MINUTE_MS
    high = low + 2 * DAY_MS

    seen = shown_times(found, zone, low, high)
    assert fires(found, zone, low, high) == seen


def shown_times(cron: Cron, zone: str, low: int, high: int) -> list[int]:
    """Return when the wall clock says that it is time, by looking at it every minute."""
    where = find_zone(zone)
    # Liberia's clocks stood half a minute off all others until 1972.
    looks = range(low - 2 * DAY_MS, high, MINUTE_MS // 2)
    local_times = ((at, to_local(at, where).replace(tzinfo=None)) for at in looks)
    full = [(at, local) for at, local in local_times if not local.second]
    minutes, shown = [at for at, _ in full], [local for _, local in full]
    if cron.level < Level.DAY:
        return [
            at
            for at, local in zip(minutes, shown, strict=True)
            if at >= low
            and cron.matches(local.date())
            and (local.hour in cron.hours and local.minute in cron.minutes)
        ]
    reached: list[datetime] = []  # The latest time shown so far, which never falls back.
    for local in shown:
        reached.append(max(local, reached[-1]) if reached else local)
    dates = sorted(
        {day + timedelta(days=more) for day in map(datetime.date, shown) for more in (0, 1)}
    )
    asked = [
        datetime.combine(day, time(cron.hours[0], cron.minutes[0]))
        for day in dates
        if cron.matches(day)
    ]
    places = [bisect_left(reached, local) for local in asked]
    return [minutes[place] for place in places if place < len(minutes) and minutes[place] >= low]


@given(crons, moments(), st.integers(1, 100 * DAY_MS))
@settings(max_examples=100, deadline=None)
def test_later_work_units_never_have_earlier_labels(
    cron: str, moment: tuple[str, int], length: int
) -> None:
    parsed(cron)
    zone, at = moment
    label_of = timelabels(TimelabelSpec(schedule=cron, zone=zone), at)

    labels = [label_of(Interval(at + k * length, at + (k + 1) * length)) for k in range(5)]
    assert labels == sorted(labels)


@given(st.integers(1, 3000), st.integers(-LATEST, LATEST))
def test_intervals_tile_time(minutes: int, at: int) -> None:
    windows = windows_of(TimelabelSpec(every_ms=minutes * MINUTE_MS))
    window = windows.at(at)

    assert window.low <= at < window.high
    assert windows.at(window.high).low == window.high
    assert windows.of_run(at).high == window.low


HOUR_MS = 60 * MINUTE_MS
schedules = st.one_of(
    st.sampled_from(
        ("0 * * * *", "10 */6 * * *", "10 0 * * *", "0 6 * * 1-5", "15 3 1,15 * *")
    ).map(lambda cron: TimelabelSpec(schedule=cron)),
    st.integers(60, 3000).map(lambda minutes: TimelabelSpec(every_ms=minutes * MINUTE_MS)),
    st.sampled_from((LabelUnit.HOUR, LabelUnit.DAY, LabelUnit.MONTH)).map(
        lambda unit: TimelabelSpec(unit=unit)
    ),
)


@st.composite
def split_jobs(draw: st.DrawFn) -> tuple[PlanningSpec, int]:
    """Return a job whose work units are split, and now; often about a change of clocks."""
    labels = draw(schedules)
    zone, now = draw(moments())
    if not labels.every_ms:
        labels = replace(labels, zone=draw(st.one_of(st.just(zone), zones)))
    word = draw(st.sampled_from(("none", "hourly", "daily", "weekly", "monthly")))
    days = draw(st.integers(0, 3 if word == "hourly" else 40))
    spec = PlanningSpec(
        start=f"{_date(now - days * DAY_MS)} 12:00:00",
        end=draw(st.sampled_from(("-", "P0D"))),
        zone=zone,
        partition=word,
        partial=draw(st.booleans()),
        limit=None,
        timelabel=replace(labels, splits=True),
    )
    try:
        partition(spec, now_ms=now)
    except ConfigError:  # a from that clocks jump over
        assume(condition=False)
    return spec, now


def _date(ms: int) -> str:
    return to_local(ms, UTC).strftime("%Y-%m-%d")


def pieces(spec: PlanningSpec, now: int) -> list[Interval]:
    made = partition(spec, now_ms=now)
    return [made[index] for index in range(len(made))]


@given(split_jobs())
@settings(max_examples=100, deadline=None)
def test_split_work_units_tile_their_unit_and_lie_in_one_window_each(
    job: tuple[PlanningSpec, int],
) -> None:
    spec, now = job
    assert spec.timelabel is not None
    windows = windows_of(spec.timelabel)
    whole = replace(spec, timelabel=replace(spec.timelabel, splits=False))
    parts = iter(pieces(spec, now))

    for unit in pieces(whole, now):
        reached = unit.low
        while reached < unit.high:
            part = next(parts)
            assert part.low == reached < part.high <= unit.high
            window = windows.at(part.low)
            assert part.high <= window.high
            assert part.high in {window.high, unit.high}, "cut nowhere else"
            reached = part.high
    assert next(parts, None) is None


@given(split_jobs(), st.integers(0, 100))
@settings(max_examples=80, deadline=None)
def test_signatures_of_split_work_units_are_unique_and_the_same_in_later_runs(
    job: tuple[PlanningSpec, int], hours: int
) -> None:
    spec, now = job
    first = plan(spec, now_ms=now, history=BareHistory({})).work_units
    again = plan(spec, now_ms=now + hours * HOUR_MS, history=BareHistory({})).work_units

    signatures = [unit.signature for unit in first]
    assert len(set(signatures)) == len(signatures)
    assert [unit.signature for unit in again][: len(signatures)] == signatures
    # The last one may have been a part of a period until then.
    for earlier, unit in list(zip(first, again, strict=False))[:-1]:
        assert (unit.partition, unit.timelabel) == (earlier.partition, earlier.timelabel)


@given(split_jobs())
@settings(max_examples=60, deadline=None)
def test_what_split_work_units_reached_is_not_due_again(job: tuple[PlanningSpec, int]) -> None:
    spec, now = job
    first = plan(spec, now_ms=now, history=BareHistory({})).work_units
    history = BareHistory({unit.signature: unit.high for unit in first})

    assert plan(spec, now_ms=now, history=history).work_units == ()


@given(split_jobs(), st.data())
@settings(max_examples=60, deadline=None)
def test_the_end_of_a_split_work_unit_is_known_from_its_start(
    job: tuple[PlanningSpec, int], data: st.DataObject
) -> None:
    spec, now = job
    known = pieces(spec, now)
    assume(known)
    part = data.draw(st.sampled_from(known))

    assert partition_from(spec, part.low, now + DAY_MS, now_ms=now) == part.high
    assert partition_from(spec, part.low, part.low + 1, now_ms=now) == part.low + 1
