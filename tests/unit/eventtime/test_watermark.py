"""What an event-time watermark says of batches: traces, boundaries, settings, refusals."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from dil.api import event_watermark
from dil.errors import ConfigError
from dil.eventtime import EventWatermark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp()) * 1000
DAY = 86_400_000
ROWS = [100, 104, 103, 110, 108, 112, 111, 120, 117, 125]
ROWS += [105, 131, 130, 138, 136, 150, 129, 151, 152, 160]
SMALL = {
    "ms.event.watermark": "adaptive",
    "ms.event.adaptive": json.dumps(
        {
            "window": 10,
            "quantile": 0.8,
            "min": 2,
            "max": 1000,
            "margins": [[4, 1000], [6, 30], [8, 10], [10, 1]],
        }
    ),
}
SPARK = {"ms.event.watermark": "fixed_delay", "ms.late.lag": "1", "ms.late.boundary": "inclusive"}
PER_DEVICE = {"ms.event.partition.column": "device"}


def bounded(delay: str = "PT2S", **more: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return {"ms.event.watermark": "bounded", "ms.event.delay": delay, **named}


def later(ms: int) -> datetime:
    return NOW + timedelta(milliseconds=ms)


def refused(properties: dict[str, str], **more: object) -> str:
    with pytest.raises(ConfigError) as error:
        event_watermark(properties, **more)  # type: ignore[arg-type]
    return str(error.value)


class TestTraces:
    def test_rows_with_spark_s_fixed_delay(self) -> None:
        watermark = event_watermark({**SPARK, "ms.event.delay": "PT5S"})
        rows = [("a", 10_000), ("b", 20_000), ("x", 0), ("c", 15_000), ("d", 15_001), ("e", 14_000)]
        after, late = [], []
        for name, time in rows:
            batch = watermark.commit([time], now=NOW)
            after.append(batch.watermark)
            late += [name] if batch.late[0] else []
        assert after == [5000, *[15_000] * 5]
        assert late == ["x", "c", "e"]

    @pytest.mark.parametrize(
        ("policy", "watermarks", "late"),
        [
            ("min", [None, -5000, 2000, 20_000], []),
            ("max", [20_000, 40_000, 60_000, 80_000], [12_000, 30_000]),
        ],
    )
    def test_two_inputs_with_delays_of_their_own(
        self, policy: str, watermarks: list[int | None], late: list[int]
    ) -> None:
        delays = {"ms.event.delay": '{"A": "PT0S", "B": "PT10S"}', "ms.event.multi.policy": policy}
        watermark = event_watermark({**SPARK, **PER_DEVICE, **delays})
        found, dropped = [], []
        for first, second in zip([20, 40, 60, 80], [None, 5, 12, 30], strict=True):
            rows = {"A": first, "B": second}
            times = [each * 1000 for each in rows.values() if each is not None]
            names = [name for name, each in rows.items() if each is not None]
            batch = watermark.commit(times, names, now=NOW)
            found.append(batch.watermark)
            dropped += [time for time, is_late in zip(times, batch.late, strict=True) if is_late]
        assert found == watermarks
        assert dropped == late

    def test_bounded(self) -> None:
        watermark = event_watermark(bounded())
        assert watermark.commit([1000, 5000], now=NOW).watermark == 3000
        assert watermark.commit([3000, 2999], now=NOW).late == [False, True]

    def test_adaptive_row_by_row(self) -> None:
        watermark = event_watermark({**SMALL, "ms.event.order": "arrival"})
        batches = [watermark.commit([time], now=NOW) for time in ROWS]
        assert [batch.watermark for batch in batches] == [
            *[-900, -896, -896, -890, 79, 81, 101, 109, 117, 123],
            *[123, 129, 129, 136, 136, 148, 148, 148, 150, 158],
        ]
        late = [time for time, batch in zip(ROWS, batches, strict=True) if batch.late[0]]
        assert late == [105, 129]

    @pytest.mark.parametrize(
        ("order", "watermarks"), [("arrival", [79, 123, 136, 158]), ("batch", [80, 123, 136, 158])]
    )
    def test_adaptive_in_batches_of_five(self, order: str, watermarks: list[int]) -> None:
        watermark = event_watermark({**SMALL, "ms.event.order": order})
        found, late = [], []
        for start in range(0, 20, 5):
            rows = ROWS[start : start + 5]
            batch = watermark.commit(rows, now=NOW)
            found.append(batch.watermark)
            late += [time for time, is_late in zip(rows, batch.late, strict=True) if is_late]
        assert found == watermarks
        assert late == [105, 129]


class TestLateRows:
    @pytest.mark.parametrize(
        ("boundary", "late"),
        [("exclusive", [True, False, False]), ("inclusive", [True, True, False])],
    )
    def test_the_row_at_the_watermark(self, boundary: str, late: list[bool]) -> None:
        watermark = event_watermark(bounded(ms_late_boundary=boundary))
        w = watermark.commit([10_000], now=NOW).watermark
        assert w == 8000
        assert watermark.commit([w - 1, w, w + 1], now=NOW).late == late

    def test_nothing_is_late_before_the_first_watermark(self) -> None:
        batch = event_watermark(bounded()).commit([5000, -1, 0], now=NOW)
        assert (batch.late, batch.effective) == ([False] * 3, None)

    def test_rows_are_judged_by_the_batch_before_and_with_lag_by_the_one_before_that(self) -> None:
        plain, lagging = event_watermark(bounded()), event_watermark(bounded(ms_late_lag="1"))
        rows = [[10_000], [20_000], [], [30_000]]
        assert [plain.commit(each, now=NOW).effective for each in rows] == [
            None,
            8000,
            18_000,
            18_000,
        ]
        assert [lagging.commit(each, now=NOW).effective for each in rows] == [
            None,
            None,
            8000,
            18_000,
        ]

    def test_none_finds_no_row_late_and_carries_a_watermark_on(self) -> None:
        before = event_watermark(bounded())
        before.commit([10_000], now=NOW)
        none = event_watermark({"ms.event.watermark": "none"}, state=before.state())
        batch = none.commit([1, None, NOW_MS + 2 * DAY], now=NOW)
        assert (batch.late, batch.effective, batch.watermark) == ([False] * 3, None, None)
        assert batch.quarantined == [2]
        after = event_watermark(bounded(), state=none.state())
        assert after.commit([7999], now=NOW).late == [True]


class TestRefusedRows:
    def test_a_row_of_the_future_moves_nothing(self) -> None:
        watermark = event_watermark(bounded())
        batch = watermark.commit([5000, NOW_MS + DAY, NOW_MS + DAY + 1], now=NOW)
        assert batch.quarantined == [2]
        assert batch.watermark == NOW_MS + DAY - 2000
        assert watermark.commit([NOW_MS + 9 * DAY], now=NOW).late == [False]

    def test_times_beyond_what_can_be_counted_are_refused(self) -> None:
        properties = bounded(ms_event_max_future="P100000000D")
        batch = event_watermark(properties).commit([2**62 + 1, -(2**62) - 1, 2**70, 1000], now=NOW)
        assert batch.quarantined == [0, 1, 2]
        assert batch.watermark == -1000

    def test_a_refused_row_is_not_late(self) -> None:
        watermark = event_watermark(bounded())
        watermark.commit([10_000], now=NOW)
        batch = watermark.commit([-(2**62) - 1, 5000], now=NOW)
        assert (batch.quarantined, batch.late) == ([0], [False, True])

    def test_times_back_to_the_year_one_are_valid(self) -> None:
        year_one = -62_135_596_800_000
        batch = event_watermark(bounded()).commit([year_one], now=NOW)
        assert (batch.quarantined, batch.watermark) == ([], year_one - 2000)

    @pytest.mark.parametrize(
        ("nulls", "quarantined", "watermark"),
        [("keep", [], 3000), ("reject", [1], 3000), ("ingest_time", [], NOW_MS - 2000)],
    )
    def test_rows_without_a_time(self, nulls: str, quarantined: list[int], watermark: int) -> None:
        batch = event_watermark(bounded(ms_event_null=nulls)).commit([5000, None], now=NOW)
        assert (batch.quarantined, batch.watermark) == (quarantined, watermark)
        assert batch.late == [False, False]

    @pytest.mark.parametrize("time", [None, NOW_MS + 2 * DAY])
    def test_they_neither_make_nor_wake_a_partition(self, time: int | None) -> None:
        idle = {"ms.event.idle.timeout": "PT10S", **PER_DEVICE}
        watermark = event_watermark({**bounded(), **idle})
        watermark.commit([10_000, 20_000], ["a", "b"], now=NOW)
        batch = watermark.commit([time, time, 30_000], ["a", "c", "b"], now=later(10_000))
        assert sorted(watermark.partitions) == ["a", "b"]
        assert batch.watermark == 28_000


class TestPartitions:
    def test_the_least_counts_and_an_idle_one_is_left_out_until_its_next_row(self) -> None:
        properties = {**bounded(), **PER_DEVICE, "ms.event.idle.timeout": "PT10S"}
        watermark = event_watermark(properties)
        assert watermark.commit([10_000, 50_000], ["a", "b"], now=NOW).watermark == 8000
        assert watermark.commit([60_000], ["b"], now=later(9_999)).watermark == 8000
        assert watermark.commit([], now=later(10_000)).watermark == 58_000
        assert watermark.commit([20_000], ["a"], now=later(10_001)).watermark == 58_000
        assert watermark.commit([70_000], ["b"], now=later(10_002)).watermark == 58_000
        assert watermark.commit([65_000], ["a"], now=later(10_003)).watermark == 63_000

    def test_a_watermark_stays_when_all_are_idle(self) -> None:
        watermark = event_watermark({**bounded(), "ms.event.idle.timeout": "PT10S"})
        watermark.commit([10_000], now=NOW)
        assert watermark.commit([], now=later(DAY)).watermark == 8000

    def test_the_source_s_own_watermark_reaches_the_least_time_when_all_are_idle(self) -> None:
        properties = {
            "ms.event.watermark": "source_180ms",
            "ms.event.idle.timeout": "PT10S",
            **PER_DEVICE,
        }
        watermark = event_watermark(properties)
        assert watermark.commit([10_000, 50_000], ["a", "b"], now=NOW).watermark == 9820
        assert watermark.commit([60_000], ["b"], now=later(10_000)).watermark == 59_820
        assert watermark.commit([], now=later(20_000)).watermark == 59_820
        only = event_watermark(properties)
        only.commit([10_000, 50_000], ["a", "b"], now=NOW)
        assert only.commit([], now=later(10_000)).watermark == 10_000

    def test_known_ones_without_rows_hold_the_watermark(self) -> None:
        delays = {"ms.event.delay": '{"a": "PT1S", "b": "PT2S"}', "ms.event.idle.timeout": "PT1S"}
        watermark = event_watermark({**bounded(), **PER_DEVICE, **delays})
        assert watermark.commit([10_000], ["a"], now=NOW).watermark is None
        assert watermark.commit([20_000], ["a"], now=later(DAY)).watermark is None
        assert watermark.commit([15_000], ["b"], now=later(DAY)).watermark == 13_000

    def test_too_many_change_nothing(self) -> None:
        properties = {**bounded(), **PER_DEVICE, "ms.event.partitions.max": "2"}
        watermark = event_watermark(properties)
        watermark.commit([10_000], ["a"], now=NOW)
        before = watermark.state()
        with pytest.raises(ConfigError, match=r"ms\.event\.partitions\.max is 2, and .* 3 part"):
            watermark.commit([20_000, 20_000, 20_000], ["a", "b", "c"], now=NOW)
        assert watermark.state() == before

    def test_system_time_keeps_none(self) -> None:
        properties = {
            "ms.event.watermark": "system_time",
            "ms.event.delay": "PT1M",
            "ms.event.partitions.max": "1",
            **PER_DEVICE,
        }
        watermark = event_watermark(properties)
        assert watermark.commit([1, 2], ["a", "b"], now=NOW).watermark == NOW_MS - 60_000
        assert watermark.commit([], now=later(5)).watermark == NOW_MS - 59_995
        assert watermark.commit([], now=NOW).watermark == NOW_MS - 59_995

    def test_names_partition_a_batch_where_no_column_is_set(self) -> None:
        given = event_watermark(bounded())
        assert given.commit([10_000, 50_000], ["a", "b"], now=NOW).watermark == 8000
        again = event_watermark(bounded(), state=given.state())
        assert sorted(again.partitions) == ["a", "b"]
        assert again.commit([30_000], ["a"], now=NOW).watermark == 28_000

    def test_a_dictionary_of_names_may_hold_one_twice_and_others_for_no_row(self) -> None:
        names = pa.DictionaryArray.from_arrays([0, 2, 1, 0], ["a", "b", "a", "none"])
        watermark = event_watermark({**bounded(), **PER_DEVICE})
        assert watermark.commit([5000, 9000, 7000, 1], names, now=NOW).watermark == 5000
        assert {name: each.rows for name, each in watermark.partitions.items()} == {"a": 3, "b": 1}

    def test_a_dictionary_of_names_holds_no_null_for_a_row(self) -> None:
        names = pa.DictionaryArray.from_arrays([0, 1], pa.array(["a", None]))
        with pytest.raises(ConfigError, match="partitions hold a null"):
            event_watermark({**bounded(), **PER_DEVICE}).commit([1, 2], names, now=NOW)

    @pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())])
    def test_names_may_be_arrow_arrays(self, kind: pa.DataType) -> None:
        names = pa.array(["a", "b", "a"]).cast(kind)
        watermark = event_watermark({**bounded(), **PER_DEVICE})
        assert watermark.commit(pa.array([5000, 9000, 7000]), names, now=NOW).watermark == 5000


class TestAdaptive:
    @pytest.mark.parametrize(
        ("rows", "bound"),
        [
            (250, 7 * DAY),
            (251, 30_000),
            (500, 30_000),
            (501, 10_000),
            (750, 10_000),
            (751, 1000),
            (1000, 1000),
            (1001, 50),
        ],
    )
    def test_margins_by_row_count(self, rows: int, bound: int) -> None:
        watermark = event_watermark({"ms.event.watermark": "adaptive"})
        assert watermark.commit([10**10] * rows, now=NOW).watermark == 10**10 - bound

    def test_a_bound_is_never_above_seven_days(self) -> None:
        watermark = event_watermark({"ms.event.watermark": "adaptive"})
        watermark.commit([10**11], now=NOW)
        assert watermark.commit([0] * 2000, now=NOW).watermark == 10**11 - 7 * DAY
        assert watermark.partitions[""].delays[5].as_py() == 7 * DAY

    def test_only_the_last_5000_delays_count(self) -> None:
        watermark = event_watermark({"ms.event.watermark": "adaptive"})
        watermark.commit([10**10], now=NOW)
        watermark.commit([10**10 - 500] * 1000, now=NOW)
        watermark.commit([10**10] * 4250, now=NOW)  # 750 of the late ones are left: 15 %
        assert watermark.watermark == 10**10 - 500
        # The 250 that are left next are 5 %, and the quantile is the one below them.
        assert watermark.commit([10**10] * 500, now=NOW).watermark == 10**10 - 50

    def test_the_quantile_s_rank_is_exact(self) -> None:
        asked = {"quantile": "0.07", "window": 100, "min": 0, "margins": [[1, 1000]]}
        properties = {"ms.event.watermark": "adaptive", "ms.event.adaptive": json.dumps(asked)}
        watermark = event_watermark(properties)
        watermark.commit([10**6], now=NOW)
        delays = list(range(100))
        # 0.07 * 100 is 7.000000000000001 in binary.
        assert watermark.commit([10**6 - n for n in delays], now=NOW).watermark == 10**6 - 6

    def test_a_partition_that_warms_up_holds_or_is_left_out(self) -> None:
        properties = {"ms.event.watermark": "adaptive", **PER_DEVICE}
        names = ["warm"] * 1001 + ["new"] * 250
        times = [10**10] * 1251
        hold = event_watermark(properties)
        ignore = event_watermark({**properties, "ms.event.warmup": "ignore"})
        assert hold.commit(times, names, now=NOW).watermark == 10**10 - 7 * DAY
        assert ignore.commit(times, names, now=NOW).watermark == 10**10 - 50

    def test_the_only_partition_counts_though_it_warms_up(self) -> None:
        properties = {"ms.event.watermark": "adaptive", "ms.event.warmup": "ignore", **PER_DEVICE}
        alone, two = event_watermark(properties), event_watermark(properties)
        assert alone.commit([10**10], ["a"], now=NOW).watermark == 10**10 - 7 * DAY
        assert two.commit([10**10, 10**10], ["a", "b"], now=NOW).watermark is None


class TestState:
    def test_an_empty_batch_repeats_it(self) -> None:
        watermark = event_watermark(bounded())
        watermark.commit([10_000], now=NOW)
        watermark.commit([], now=NOW)
        before = watermark.state()
        watermark.commit([], now=later(DAY))
        assert watermark.state() == before

    def test_the_order_in_which_partitions_came_does_not_show(self) -> None:
        one, other = (event_watermark({**bounded(), **PER_DEVICE}) for _ in range(2))
        one.commit([1, 2], ["a", "b"], now=NOW)
        other.commit([2, 1], ["b", "a"], now=NOW)
        assert one.state() == other.state()

    def test_another_strategy_s_gives_its_watermark_to_judge_and_to_grow_from(self) -> None:
        before = event_watermark(bounded())
        before.commit([10_000], now=NOW)
        after = event_watermark({**SMALL, "ms.late.lag": "1"}, state=before.state())
        batch = after.commit([7999, 8000], now=NOW)
        assert (batch.late, batch.effective, batch.watermark) == ([True, False], 8000, 8000)

    def test_a_floor_counts_where_it_is_larger(self) -> None:
        before = event_watermark(bounded())
        before.commit([10_000], now=NOW)
        lower = event_watermark(bounded(), state=before.state(), floor=7000)
        higher = event_watermark(bounded(ms_late_lag="1"), state=before.state(), floor=9000)
        assert lower.commit([], now=NOW).effective == 8000
        assert higher.commit([8999], now=NOW).late == [True]
        assert event_watermark(bounded(), floor=9000).commit([8999], now=NOW).late == [True]

    def test_manual_moves_by_a_floor_alone(self) -> None:
        manual = event_watermark({"ms.event.watermark": "manual"})
        assert manual.commit([NOW_MS], now=NOW).watermark is None
        moved = event_watermark({"ms.event.watermark": "manual"}, state=manual.state(), floor=5000)
        assert moved.commit([4999], now=NOW).late == [True]
        back = event_watermark({"ms.event.watermark": "manual"}, state=moved.state(), floor=4000)
        assert back.watermark == 5000

    def test_a_smaller_delay_acts_on_the_next_rows_and_a_larger_one_takes_nothing_back(
        self,
    ) -> None:
        before = event_watermark(bounded("PT10S"))
        before.commit([100_000], now=NOW)
        smaller = event_watermark(bounded("PT1S"), state=before.state())
        assert smaller.commit([], now=NOW).watermark == 90_000
        assert smaller.commit([50_000], now=NOW).watermark == 99_000
        larger = event_watermark(bounded("PT20S"), state=before.state())
        assert larger.commit([105_000], now=NOW).watermark == 90_000

    def test_under_fixed_delay_a_new_delay_is_taken_off_the_rows_of_the_batch(self) -> None:
        fixed = {"ms.event.watermark": "fixed_delay"}
        before = event_watermark({**fixed, "ms.event.delay": "PT10S"})
        before.commit([100_000], now=NOW)
        after = event_watermark({**fixed, "ms.event.delay": "PT1S"}, state=before.state())
        assert after.commit([92_000], now=NOW).watermark == 91_000

    def test_a_smaller_window_keeps_the_last_delays(self) -> None:
        def adaptive(window: int) -> dict[str, str]:
            asked = json.dumps({"window": window, "min": 0, "margins": []})
            return {"ms.event.watermark": "adaptive", "ms.event.adaptive": asked}

        before = event_watermark(adaptive(10))
        before.commit([1000], now=NOW)
        before.commit([900] * 5 + [1000] * 3, now=NOW)
        after = event_watermark(adaptive(4), state=before.state())
        assert after.partitions[""].delays.to_pylist() == [100, 0, 0, 0]
        assert after.commit([1000], now=NOW).watermark == 1000

    @pytest.mark.parametrize("state", [b"", b"x", b"ARROW1\0\0"])
    def test_bytes_that_are_none_are_refused(self, state: bytes) -> None:
        assert "state is no event watermark" in refused(bounded(), state=state)

    def test_a_table_of_others_is_none(self) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])):
            pass
        assert "state is no event watermark" in refused(
            bounded(), state=sink.getvalue().to_pybytes()
        )


class TestRefusedCalls:
    @pytest.fixture
    def watermark(self) -> EventWatermark:
        watermark = event_watermark({**bounded(), **PER_DEVICE})
        watermark.commit([10_000], ["a"], now=NOW)
        return watermark

    @pytest.mark.parametrize(
        ("times", "names", "now", "message"),
        [
            ([1], ["a"], datetime(2026, 1, 1), "now has no time zone"),  # noqa: DTZ001
            ([1, 2], ["a"], NOW, "partitions are 1 for 2 rows"),
            ([1], None, NOW, "partitions are missing"),
            ([1], [None], NOW, "partitions hold a null"),
            ([1], [7], NOW, "partitions are no texts"),
            (["x"], ["a"], NOW, "times are no times"),
            (pa.array([1.5]), ["a"], NOW, "times are of the Arrow type double"),
        ],
    )
    def test_they_change_nothing(
        self,
        watermark: EventWatermark,
        times: list[int],
        names: list[str] | None,
        now: datetime,
        message: str,
    ) -> None:
        before = watermark.state()
        with pytest.raises(ConfigError, match=message):
            watermark.commit(times, names, now=now)
        assert watermark.state() == before

    def test_a_partition_without_a_delay_is_refused(self) -> None:
        delays = {"ms.event.delay": '{"a": "PT1S"}'}
        watermark = event_watermark({**bounded(), **PER_DEVICE, **delays})
        with pytest.raises(ConfigError, match='no delay of the partition "b"'):
            watermark.commit([1, 2], ["a", "b"], now=NOW)
        assert watermark.partitions == {}

    def test_now_is_floored_to_the_millisecond_of_any_zone(self) -> None:
        now = datetime(2026, 1, 1, 2, 0, 0, 1999, tzinfo=timezone(timedelta(hours=2)))
        properties = {"ms.event.watermark": "system_time", "ms.event.delay": "PT0S"}
        assert event_watermark(properties).commit([], now=now).watermark == NOW_MS + 1


class TestRefusedSettings:
    @pytest.mark.parametrize("strategy", ["bounded", "fixed_delay", "system_time"])
    def test_a_strategy_without_its_delay(self, strategy: str) -> None:
        message = refused({"ms.event.watermark": strategy})
        assert f"ms.event.delay is not set, and ms.event.watermark is {strategy}" in message

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("ms.event.watermark", "boundd", "bounded"),
            ("ms.event.wotermark", "bounded", 'Did you mean "ms.event.watermark"'),
            ("ms.event.delay", "-PT5S", "is negative"),
            ("ms.event.delay", "P1M", "has months or years"),
            ("ms.event.delay", "{}", "names no partition"),
            ("ms.event.delay", '{"a": "PT1S"}', "no column says which partition"),
            ("ms.event.delay", '{"a": "soon"}', '"a" is not an ISO duration'),
            ("ms.event.multi.policy", "max", "is max, and ms.event.watermark is bounded"),
            ("ms.event.partitions.max", "0", "out of bounds"),
            ("ms.late.lag", "2", "out of bounds"),
            ("ms.event.adaptive", '{"windw": 1}', 'Did you mean "window"'),
            ("ms.event.adaptive", '{"quantile": 0}', "quantile is out of bounds"),
            ("ms.event.adaptive", '{"quantile": 1.01}', "quantile is out of bounds"),
            ("ms.event.adaptive", '{"max": "P8D"}', "max is above 7 days"),
            ("ms.event.adaptive", '{"min": "PT2S", "max": 1000}', "min is above max"),
            ("ms.event.adaptive", '{"margins": [[9, 1], [9, 2]]}', "ascending"),
            ("ms.event.adaptive", '{"margins": [[9]]}', "margins[0] is no margin"),
            ("ms.event.adaptive", '{"window": 0}', "window is too small"),
        ],
    )
    def test_it_names_the_property(self, name: str, value: str, message: str) -> None:
        found = refused({**bounded(), name: value})
        assert name in found
        assert message in found

    def test_delays_by_partition_under_system_time(self) -> None:
        properties = {
            "ms.event.watermark": "system_time",
            "ms.event.delay": '{"a": "PT1S"}',
            **PER_DEVICE,
        }
        assert "which has none" in refused(properties)

    def test_all_problems_at_once(self) -> None:
        found = refused({"ms.event.watermark": "x", "ms.late.lag": "5", "ms.event.null": "y"})
        assert all(name in found for name in ("ms.event.watermark", "ms.late.lag", "ms.event.null"))

    def test_other_properties_do_not_matter(self) -> None:
        others = {"job.name": "x", "ms.watermark": "no JSON"}
        batch = event_watermark({**bounded(), **others}).commit([5000], now=NOW)
        assert batch.watermark == 3000

    def test_a_partial_adaptive_has_the_defaults(self) -> None:
        properties = {"ms.event.watermark": "adaptive", "ms.event.adaptive": '{"min": "PT1S"}'}
        watermark = event_watermark(properties)
        assert watermark.commit([10**10] * 1001, now=NOW).watermark == 10**10 - 1000
