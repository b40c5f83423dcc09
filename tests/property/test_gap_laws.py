"""Laws of gaps: every instant has exactly one status, and no two stretches alike touch."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.interval import DAY_MS, HOUR_MS, Interval
from dil.model.job import PlanningSpec
from dil.planning import BareHistory, plan
from dil.planning.gaps import GapStatus, Stretch, gaps
from dil.planning.partitions import partition
from dil.planning.unit_history import Unit
from dil.state.work_units.history import stretches_of

START = 1_709_251_200_000  # 2024-03-01T00:00:00Z
HOURS = 120
UNIT = '{"id":"a"}'


@dataclass(frozen=True)
class Record:
    """One record, in hours from the start."""

    low: int
    end: int
    high: int | None
    status: str

    @property
    def row(self) -> tuple[int, int, int | None, str]:
        high = None if self.high is None else START + self.high * HOUR_MS
        return START + self.low * HOUR_MS, START + self.end * HOUR_MS, high, self.status


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """Return records of partitions of any length, also such as overlap: the grid changed."""
    made = []
    for low in sorted(draw(st.sets(st.integers(-30, HOURS), max_size=8))):
        end = low + draw(st.sampled_from((1, 6, 24, 48)))
        status = draw(st.sampled_from(("COMMITTED", "COMMITTED", "FAILED", "SKIPPED")))
        reached = st.integers(low, end + 3)
        high = {
            "COMMITTED": reached,
            "FAILED": st.none() | reached,
            "SKIPPED": st.none(),
        }[status]
        made.append(Record(low, end, draw(high), status))
    if draw(st.booleans()):  # the newest is read in part, as a day that has not ended
        day = draw(st.integers(0, 4)) * 24
        made = [each for each in made if each.low < day]
        made.append(Record(day, day + 24, day + draw(st.integers(1, 23)), "COMMITTED"))
    return made


@st.composite
def specs(draw: st.DrawFn) -> PlanningSpec:
    return PlanningSpec(
        start="2024-03-01",
        end=draw(st.sampled_from(("-", "P0D", "2024-03-04"))),
        units=(UNIT,),
        partition=draw(st.sampled_from(("hourly", "daily", "daily", "weekly", "none"))),
        partial=draw(st.booleans()),
        zone="UTC",
        abstinent_ms=draw(st.sampled_from((0, 5, 30))) * HOUR_MS,
        grace_ms=draw(st.sampled_from((0, 7))) * HOUR_MS,
        delay_ms=draw(st.sampled_from((0, 0, 9))) * HOUR_MS,
        limit=None,
    )


def _by_hours(spec: PlanningSpec, made: list[Record], now: int) -> dict[int, str]:
    """Return the status of each hour, decided for it alone; the planner says what is due."""
    grid = partition(spec, now_ms=now)
    reached = grid.ends[-1] if grid else None
    unit = Unit.of(UNIT, spec.unit_name, spec.datetime_name)
    newest = _newest(made)
    on_grid = next(
        (p for p in map(grid.__getitem__, range(len(grid))) if newest and p.low == newest.low),
        None,
    )
    known = {} if newest is None else {unit.signature(newest.low): newest.high}
    due = plan(spec, now_ms=now, history=BareHistory(known)).work_units
    found = {}
    for hour in range(-40, HOURS + 60):
        instant = START + hour * HOUR_MS
        status = "never"
        if reached is not None and instant >= reached:
            status = "never" if spec.end == "2024-03-04" and hour >= 72 else "open"
        elif newest and on_grid and newest.high <= instant < on_grid.high:
            is_due = any(unit.low <= instant < unit.high for unit in due)
            status = "never" if is_due else "open"
        for each in made:
            if each.status == "SKIPPED" and each.low <= hour < each.end and status != "failed":
                status = "skipped"
            low = each.low if each.high is None else max(each.low, each.high)
            if each.status == "FAILED" and low <= hour < each.end:
                status = "failed"
        if any(each.high is not None and each.low <= hour < each.high for each in made):
            status = "committed"
        found[hour] = status
    return found


def _newest(made: list[Record]) -> Interval | None:
    """Return the success with the largest high, None where it failed since."""
    read = [each for each in made if each.high is not None and each.high > each.low]
    last = max(read, key=lambda each: each.row[2] or 0, default=None)
    if last is None or last.status == "FAILED":
        return None
    return Interval(last.row[0], last.row[2] or 0)


@given(specs(), records(), st.integers(30, HOURS), st.integers(-40, 60), st.integers(1, 110))
@settings(max_examples=500, deadline=None)
def test_every_hour_has_the_status_that_it_has_alone(
    spec: PlanningSpec, made: list[Record], now_hour: int, first: int, length: int
) -> None:
    now = START + now_hour * HOUR_MS
    if not partition(spec, now_ms=now):
        return
    window = Interval(START + first * HOUR_MS, START + (first + length) * HOUR_MS)
    recorded = stretches_of(f"unit.{UNIT}", [each.row for each in made])

    (unit,) = gaps(spec, window, [recorded], now_ms=now)

    _assert_tiles(unit.stretches, window)
    expected = _by_hours(spec, made, now)
    found = {
        (instant - START) // HOUR_MS: each.status.value
        for each in unit.stretches
        for instant in range(each.low, each.high, HOUR_MS)
    }
    assert found == {hour: expected[hour] for hour in range(first, first + length)}


def _assert_tiles(stretches: tuple[Stretch, ...], window: Interval) -> None:
    """Every instant of the window lies in one stretch, and none can be merged with its next."""
    assert stretches[0].low == window.low
    assert stretches[-1].high == window.high
    assert all(each.low < each.high for each in stretches)
    assert all(one.high == next_one.low for one, next_one in pairwise(stretches))
    assert all(one.status != next_one.status for one, next_one in pairwise(stretches))


@given(records())
@settings(max_examples=100, deadline=None)
def test_a_unit_that_the_job_has_no_more_is_never_open(made: list[Record]) -> None:
    spec = PlanningSpec(start="2024-03-01", units=(UNIT,), partition="daily", zone="UTC")
    gone = stretches_of('unit.{"id":"gone"}', [each.row for each in made])
    window = Interval(START, START + 10 * DAY_MS)

    own, other = gaps(spec, window, [gone], now_ms=START + 5 * DAY_MS)

    assert (own.in_job, other.in_job) == (True, False)
    assert [each.status for each in own.stretches] == [GapStatus.NEVER, GapStatus.OPEN]
    assert GapStatus.OPEN not in {each.status for each in other.stretches}
    _assert_tiles(other.stretches, window)
