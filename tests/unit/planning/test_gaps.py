"""Which stretches count as read, failed, skipped, never read, or open."""

from dataclasses import replace

import pytest

from dil.model.history import UnitStretches
from dil.model.interval import DAY_MS, HOUR_MS, Interval
from dil.model.job import PlanningSpec
from dil.planning.gaps import gaps
from dil.planning.partitions import watermark_range

START = 1_709_251_200_000  # 2024-03-01T00:00:00Z
UNIT = '{"id":"a"}'
KEY = f"unit.{UNIT}"
DAILY = PlanningSpec(start="2024-03-01", units=(UNIT,), partition="daily", zone="UTC")


def day(number: float) -> int:
    return START + round(number * DAY_MS)


def days(low: float, high: float) -> Interval:
    return Interval(day(low), day(high))


def read(*stretches: Interval, newest: Interval | None = None) -> UnitStretches:
    return UnitStretches(KEY, read=stretches, newest=newest)


def found(
    spec: PlanningSpec,
    recorded: UnitStretches | None = None,
    *,
    now: float = 5,
    to: float = 5,
    watermark: float | None = None,
) -> list[tuple[float, float, str]]:
    """Return the stretches of the only unit, in days from the start."""
    known = [] if recorded is None else [recorded]
    mark = None if watermark is None else day(watermark)
    (unit,) = gaps(spec, days(0, to), known, now_ms=day(now), watermark=mark)
    return [
        ((each.low - START) / DAY_MS, (each.high - START) / DAY_MS, each.status.value)
        for each in unit.stretches
    ]


def test_what_the_range_has_not_reached_is_open() -> None:
    unfinished = replace(DAILY, partial=False)
    assert found(unfinished, now=4.5) == [(0, 4, "never"), (4, 5, "open")]
    assert found(replace(DAILY, delay_ms=12 * HOUR_MS)) == [(0, 4.5, "never"), (4.5, 5, "open")]
    assert found(replace(DAILY, end="P1D")) == [(0, 4, "never"), (4, 5, "open")]


def test_what_was_not_read_behind_the_event_watermark_is_open() -> None:
    known = read(days(1, 2), days(3, 3.5), newest=days(3, 3.5))
    assert found(DAILY, known, watermark=2.5) == [
        (0, 1, "never"),
        (1, 2, "committed"),
        (2, 2.5, "never"),
        (2.5, 3, "open"),
        (3, 3.5, "committed"),
        (3.5, 5, "open"),
    ]
    abstinent = replace(DAILY, abstinent_ms=DAY_MS)
    assert found(abstinent, known, watermark=2.5)[-1] == (3.5, 5, "open")
    assert found(DAILY, watermark=-9) == [(0, 5, "open")]
    assert found(replace(DAILY, end="2024-03-03"), watermark=1, to=4) == [
        (0, 1, "never"), (1, 2, "open"), (2, 4, "never"),
    ]  # fmt: skip


def test_behind_an_end_that_stands_nothing_is_open() -> None:
    assert found(replace(DAILY, end="2024-03-03")) == [(0, 5, "never")]
    unfinished = replace(DAILY, end="2024-03-03T12:00:00Z", partial=False)
    assert found(unfinished, to=2.5) == [(0, 2, "never"), (2, 2.5, "open")]


def test_the_rest_of_the_newest_partition_is_open_in_its_abstinent_period() -> None:
    known = read(days(0, 2.25), newest=days(2, 2.25))
    rest = (2.25, 3, "open"), (3, 5, "never")
    assert found(replace(DAILY, abstinent_ms=DAY_MS), known) == [(0, 2.25, "committed"), *rest]
    assert found(DAILY, known) == [(0, 2.25, "committed"), (2.25, 5, "never")]
    both = replace(DAILY, abstinent_ms=DAY_MS, grace_ms=DAY_MS)
    assert found(both, known) == found(DAILY, known)


def test_a_job_that_reads_everything_anew_leaves_nothing_open() -> None:
    known = read(days(0, 2.25), newest=days(2, 2.25))
    spec = replace(DAILY, abstinent_ms=DAY_MS, ignore_history=True)
    assert found(spec, known) == [(0, 2.25, "committed"), (2.25, 5, "never")]


def test_the_better_status_counts_where_partitions_changed() -> None:
    known = UnitStretches(KEY, read=[days(0, 1)], failed=[days(0.5, 2)], skipped=[days(1.5, 3)])
    assert found(DAILY, known) == [
        (0, 1, "committed"), (1, 2, "failed"), (2, 3, "skipped"), (3, 5, "never"),
    ]  # fmt: skip


def test_a_file_that_was_read_is_committed_whole() -> None:
    once = replace(DAILY, partition="none", once="version", units=None, of_source=True)
    assert found(once, read(days(0, 3), newest=days(0, 3))) == [(0, 5, "committed")]
    failed = UnitStretches(KEY, read=[days(0, 2)], failed=[days(2, 3)])
    assert found(once, failed) == [(0, 2, "committed"), (2, 3, "failed"), (3, 5, "never")]


def test_units_of_the_job_come_first_and_those_only_in_the_state_are_marked() -> None:
    spec = replace(DAILY, units=('{"id":"z"}', UNIT, '{"id":"z"}'))
    gone = [UnitStretches(f'unit.{{"id":"{each}"}}') for each in "cb"]
    units = gaps(spec, days(0, 2), [*gone, read(days(0, 1))], now_ms=day(1))
    assert [(unit.unit_key, unit.in_job) for unit in units] == [
        ('unit.{"id":"z"}', True), (KEY, True),
        ('unit.{"id":"b"}', False), ('unit.{"id":"c"}', False),
    ]  # fmt: skip


def test_units_of_the_source_are_those_that_are_recorded() -> None:
    spec = replace(DAILY, units=None)
    units = gaps(spec, days(0, 2), [UnitStretches("activation.b"), read()], now_ms=day(1))
    assert [(unit.unit_key, unit.in_job) for unit in units] == [
        ("activation.b", True), (KEY, True),
    ]  # fmt: skip


def test_an_empty_window_has_no_stretches() -> None:
    (unit,) = gaps(DAILY, days(2, 2), [], now_ms=day(5))
    assert unit.stretches == ()


def test_time_between_sub_ranges_is_never_read() -> None:
    spec = replace(
        DAILY,
        composite=(("daily", "2024-03-01", "2024-03-02"), ("hourly", "2024-03-04", "-")),
    )
    known = UnitStretches(KEY, read=[days(0, 1), days(3, 4)])
    assert watermark_range(spec, now_ms=day(5)) == days(0, 5)
    assert found(spec, known) == [
        (0, 1, "committed"), (1, 3, "never"), (3, 4, "committed"), (4, 5, "never"),
    ]  # fmt: skip


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Australia/Lord_Howe"])
def test_days_of_the_zone_keep_their_length(zone: str) -> None:
    spec = replace(DAILY, zone=zone, start="2024-11-01", end="P0D", partial=False)
    now = 1_730_721_600_000  # 2024-11-04T12:00:00Z
    window = watermark_range(spec, now_ms=now)
    (unit,) = gaps(spec, window, [], now_ms=now)
    (only,) = unit.stretches
    assert (only.low, only.high, only.status) == (window.low, window.high, "never")
