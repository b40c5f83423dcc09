"""The plan of a run: matrix, signatures, limit, retries, full or incremental."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dil.errors import PlanningError
from dil.model.history import Coverage, UnitRecord
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec, TableType
from dil.model.work_unit import Plan, Reason
from dil.planning import BareHistory, plan

START = 1577836800000  # 2020-01-01T00:00Z
NOW = START + 10 * DAY_MS
SPEC = PlanningSpec(
    start="2020-01-01 00:00:00Z", end="2020-01-11 00:00:00Z", partition="daily", zone="UTC"
)
NOTHING = BareHistory({})


def signature(day: int, unit: str = "{}") -> str:
    return f"[watermark.datetime.{START + day * DAY_MS}, watermark.unit.{unit}]"


def done(*days: int, unit: str = "{}") -> dict[str, int | UnitRecord]:
    return {signature(day, unit): START + (day + 1) * DAY_MS for day in days}


def failed(day: int, *, attempts: int = 1, high: int | None = None) -> dict[str, UnitRecord]:
    record = UnitRecord(signature(day), START + day * DAY_MS, high, failed=True, attempts=attempts)
    return {record.signature: record}


def make(spec: PlanningSpec = SPEC, history: Mapping[str, int | UnitRecord] | None = None) -> Plan:
    return plan(spec, now_ms=NOW, history=BareHistory(history or {}))


def days(made: Plan) -> list[int]:
    return [(unit.partition.low - START) // DAY_MS for unit in made.work_units]


def test_signatures_are_those_of_dil() -> None:
    spec = PlanningSpec(datetime_name="system", start="2017-01-01")

    assert make(spec).work_units[0].signature == (
        "[watermark.system.1483257600000, watermark.unit.{}]"
    )


def test_activation_rows_make_units_named_activation() -> None:
    made = plan(
        PlanningSpec(units=None), now_ms=NOW, history=NOTHING, activation=['{"id":"a/b","n":1.0}']
    )

    unit = made.work_units[0]
    assert unit.signature == (
        '[watermark.datetime.1546329600000, watermark.activation.{"id":"a/b","n":1.0}]'
    )
    assert list(unit.unit) == ["id", "n"]


def test_partitions_are_walked_outside_and_units_inside() -> None:
    spec = replace(SPEC, end="2020-01-03 00:00:00Z", units=('{"id":"b"}', '{"id":"a"}'))

    made = make(spec)

    assert [(unit.partition.low, unit.unit["id"]) for unit in made.work_units] == [
        (START, "b"), (START, "a"), (START + DAY_MS, "b"), (START + DAY_MS, "a"),
    ]  # fmt: skip


def test_equal_units_count_once_in_the_place_of_the_first() -> None:
    spec = replace(SPEC, partition="none", units=("1", "2", "1"))

    assert [unit.unit_json for unit in make(spec).work_units] == ["1", "2"]


def test_each_unit_keeps_its_own_clock() -> None:
    units = ('{"id":"a"}', '{"id":"b"}')
    spec = replace(SPEC, units=units)

    made = make(spec, done(8, 9, unit=units[0]) | done(3, unit=units[1]))

    assert made.cutoff == NOW
    assert [u.partition.low for u in made.work_units if u.unit_json == units[0]] == [
        START + day * DAY_MS for day in range(8)
    ]
    assert 9 in [
        (u.partition.low - START) // DAY_MS for u in made.work_units if u.unit["id"] == "b"
    ]


def test_records_of_signatures_that_are_not_planned_do_not_count() -> None:
    other = {signature(0).replace("datetime", "system"): NOW + 99 * DAY_MS, signature(-1): NOW * 2}

    assert make(SPEC, other | done(0)).cutoff == START + DAY_MS


def test_a_unit_that_looks_like_a_signature_finds_its_record() -> None:
    unit = '{"id":"x.5, watermark.unit.{}"}'
    spec = replace(SPEC, units=(unit,))

    made = make(spec, done(*range(10), unit=unit))

    assert (made.work_units, made.skipped) == ((), 10)


@pytest.mark.parametrize("unit", ['{"id":"a/b"}', '{"id":"a%2Fb"}', '{"id":"a/b%2Fc"}'])
@pytest.mark.parametrize(("written", "read"), [("/", "/"), ("/", "%2F"), ("%2F", "/")])
def test_a_record_is_found_however_its_slashes_are_spelled(
    unit: str, written: str, read: str
) -> None:
    spec = replace(SPEC, units=(unit,))
    history = {name.replace(written, read): high for name, high in done(0, unit=unit).items()}

    assert make(spec, history).skipped == 1


def test_units_that_differ_in_the_spelling_of_a_slash_keep_records_of_their_own() -> None:
    slash, code = '{"id":"a/b"}', '{"id":"a%2Fb"}'
    spec = replace(SPEC, units=(slash, code))

    made = make(spec, done(*range(10), unit=code))

    assert {unit.unit_json for unit in made.work_units} == {slash}
    assert (len(made.work_units), made.skipped) == (10, 10)


def test_the_limit_leaves_the_rest_and_says_how_much() -> None:
    made = make(replace(SPEC, limit=4), done(0))

    assert days(made) == [1, 2, 3, 4]
    assert (made.skipped, made.left, made.left_low) == (1, 5, START + 5 * DAY_MS)


def test_without_limit_nothing_is_left() -> None:
    made = make(replace(SPEC, limit=None))

    assert (len(made.work_units), made.left, made.left_low) == (10, 0, None)


def test_retries_take_at_most_half_while_others_are_due() -> None:
    history = failed(0) | failed(1) | failed(2) | failed(3)

    made = make(replace(SPEC, limit=4), history)

    assert days(made) == [0, 1, 4, 5]
    assert (made.left, made.left_low) == (6, START + 2 * DAY_MS)


def test_retries_fill_the_places_that_others_do_not_need() -> None:
    history = {**done(4, 5, 6, 7, 8), **failed(0), **failed(1), **failed(2), **failed(3)}

    assert days(make(replace(SPEC, limit=4), history)) == [0, 1, 2, 9]


def test_a_limit_of_one_lets_first_readings_go_before_retries() -> None:
    assert days(make(replace(SPEC, limit=1), failed(0))) == [1]
    waiting = {signature(day): START + day * DAY_MS for day in range(1, 10)}
    assert days(make(replace(SPEC, limit=1), failed(0) | waiting)) == [1]


def test_with_a_limit_of_one_readings_again_do_not_starve_a_retry() -> None:
    spec = replace(SPEC, limit=1, grace_ms=3 * DAY_MS)
    again = done(*range(1, 10))
    assert days(make(spec, failed(0) | again)) == [0]
    assert days(make(spec, done(0) | again)) == [7]


def test_retries_that_were_tried_least_go_first() -> None:
    history = failed(0, attempts=9) | failed(1, attempts=9) | failed(2) | failed(3, attempts=2)

    assert days(make(replace(SPEC, limit=4), history)) == [2, 3, 4, 5]


def test_a_record_equal_to_its_start_is_no_record_but_its_reason_is_retry() -> None:
    history = {signature(day): START + day * DAY_MS for day in range(4)}

    made = make(replace(SPEC, limit=4), history)

    assert days(made) == [0, 1, 2, 3]
    assert {unit.reason for unit in made.work_units} == {Reason.RETRY}
    assert made.cutoff is None


def test_a_failed_reread_starts_at_its_last_success_less_grace() -> None:
    high = START + 5 * DAY_MS + 3_600_000
    history = {**done(9), **failed(5, high=high)}

    made = make(replace(SPEC, grace_ms=1_800_000), history)

    unit = next(unit for unit in made.work_units if unit.partition.low == START + 5 * DAY_MS)
    assert (unit.low, unit.last_high, unit.reason) == (high - 1_800_000, high, Reason.RETRY)


def test_backfill_plans_the_whole_matrix_and_ignores_history() -> None:
    made = make(replace(SPEC, backfill=True, grace_ms=DAY_MS), done(*range(10)))

    assert days(made) == [*range(10)]
    assert {unit.reason for unit in made.work_units} == {Reason.BACKFILL}
    assert (made.cutoff, made.skipped, made.full_extract) == (None, 0, False)


def test_replace_plans_the_whole_matrix_as_new() -> None:
    made = make(replace(SPEC, ignore_history=True), done(*range(10)))

    assert {unit.reason for unit in made.work_units} == {Reason.NEW}
    assert len(made.work_units) == 10


@pytest.mark.parametrize("mode", ["backfill", "ignore_history"])
def test_a_whole_matrix_above_the_limit_is_refused(mode: str) -> None:
    with pytest.raises(PlanningError) as caught:
        make(replace(SPEC, limit=9, **{mode: True}))

    assert caught.value.code == "DIL-PLAN"


def test_window_replace_reads_due_units_from_their_start() -> None:
    made = make(
        replace(SPEC, grace_ms=DAY_MS // 2, read_from_partition_start=True), done(*range(10))
    )

    assert [(unit.low, unit.high) for unit in made.work_units] == [(START + 9 * DAY_MS, NOW)]


def test_fewer_work_units_than_asked_for_is_an_error() -> None:
    assert len(make(replace(SPEC, min_units=10)).work_units) == 10
    with pytest.raises(PlanningError):
        make(replace(SPEC, min_units=11))
    with pytest.raises(PlanningError):
        make(replace(SPEC, min_units=5, limit=4))


def test_pacing_holds_each_work_unit_back_longer() -> None:
    made = make(replace(SPEC, pacing_s=30, limit=3))

    assert [unit.not_before for unit in made.work_units] == [NOW, NOW + 30_000, NOW + 60_000]
    assert {unit.not_before for unit in make().work_units} == {0}


@pytest.mark.parametrize(
    ("table", "is_full", "dynamic", "backfill", "known", "expected"),
    [
        (TableType.SNAPSHOT_ONLY, False, False, False, True, True),
        (TableType.SNAPSHOT_ONLY, True, True, True, False, False),
        (TableType.APPEND_ONLY, False, True, False, False, True),
        (TableType.APPEND_ONLY, False, True, False, True, False),
        (TableType.APPEND_ONLY, False, False, False, False, False),
        (TableType.SNAPSHOT_APPEND, True, False, False, True, True),
        (TableType.APPEND_ONLY, True, True, True, True, False),
    ],
)
def test_full_or_incremental_is_decided_once(
    table: TableType, is_full: bool, dynamic: bool, backfill: bool, known: bool, expected: bool
) -> None:
    spec = replace(
        SPEC, table_type=table, is_full=is_full, dynamic_full_load=dynamic, backfill=backfill
    )

    assert make(spec, done(0) if known else {}).full_extract is expected


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ({signature(0): START}, True),
        (failed(0) | failed(1), True),
        (failed(0) | done(1), False),
        (failed(0, high=START + 1), False),
        ({signature(0): UnitRecord(signature(0), START, None, skipped=True)}, True),
    ],
)
def test_runs_stay_full_until_a_work_unit_has_succeeded(
    history: Mapping[str, int | UnitRecord], expected: bool
) -> None:
    made = make(replace(SPEC, table_type=TableType.APPEND_ONLY), history)

    assert made.full_extract is expected


def test_activation_rows_must_be_given_where_the_job_needs_them_and_only_there() -> None:
    with pytest.raises(PlanningError):
        plan(replace(SPEC, units=None), now_ms=NOW, history=NOTHING)
    with pytest.raises(PlanningError):
        plan(SPEC, now_ms=NOW, history=NOTHING, activation=["{}"])


def test_no_activation_rows_make_no_work_units() -> None:
    made = plan(replace(SPEC, units=None), now_ms=NOW, history=NOTHING, activation=[])

    assert (made.work_units, made.skipped, made.left) == ((), 0, 0)


def test_an_explained_plan_lists_what_is_not_due() -> None:
    made = plan(SPEC, now_ms=NOW, history=BareHistory(done(0, 1)), explain=True)

    assert [skip.partition.low for skip in made.skips] == [START, START + DAY_MS]
    assert made.skips[0].last_high == START + DAY_MS
    assert made.skips[0].cutoff == START + 2 * DAY_MS
    assert make(SPEC, done(0, 1)).skips is None


class CountingHistory:
    """All daily partitions but the last few are covered; counts the records it hands out."""

    def __init__(self, covered: int, *, open_day: int | None = None) -> None:
        self.covered = covered
        self.open_day = open_day
        self.handed_out = 0

    def has_succeeded(self) -> bool:
        return True

    def coverage(self, unit_key: str) -> Coverage | None:
        end = START + self.covered * DAY_MS
        return Coverage(START, end, end, int(self.open_day is not None))

    def records(self, unit_key: str, low: int, high: int) -> Mapping[str, UnitRecord]:
        found = {
            signature(day): UnitRecord(
                signature(day), START + day * DAY_MS, START + (day + 1) * DAY_MS
            )
            for day in range(self.covered)
            if low <= START + day * DAY_MS < high
        }
        self.handed_out += len(found)
        return found

    def open_records(self, unit_key: str) -> Mapping[str, UnitRecord]:
        day = self.open_day
        assert day is not None
        low = START + day * DAY_MS
        return {signature(day): UnitRecord(signature(day), low, low + DAY_MS // 2, failed=True)}


def test_planning_reads_only_the_records_near_the_cutoff() -> None:
    history = CountingHistory(5000)
    spec = replace(SPEC, end="2033-09-10 00:00:00Z", grace_ms=2 * DAY_MS)

    made = plan(spec, now_ms=NOW, history=history)

    assert [unit.reason for unit in made.work_units] == [Reason.INCREMENTAL] * 2 + [Reason.NEW]
    assert made.skipped == 4998
    assert history.handed_out <= 3


def test_a_failed_reread_inside_the_covered_range_is_found() -> None:
    made = plan(SPEC, now_ms=NOW, history=CountingHistory(10, open_day=3))

    assert days(made) == [3]
    assert made.work_units[0].low == START + 3 * DAY_MS + DAY_MS // 2


def test_a_coverage_row_of_other_partitions_is_not_believed() -> None:
    shifted = replace(SPEC, start="2020-01-01 12:00:00Z", end="2020-01-09 12:00:00Z")

    made = plan(shifted, now_ms=NOW, history=CountingHistory(10))

    assert [unit.reason for unit in made.work_units] == [Reason.NEW] * 8
    assert made.cutoff is None


def test_a_coverage_row_of_another_watermark_name_is_not_believed() -> None:
    made = plan(replace(SPEC, datetime_name="other"), now_ms=NOW, history=CountingHistory(10))

    assert len(made.work_units) == 10


def test_a_delay_holds_the_end_of_the_range_back() -> None:
    spec = replace(SPEC, end="-", delay_ms=DAY_MS // 2)
    made = make(spec)
    assert made.work_units[-1].high == NOW - DAY_MS // 2
    assert make(replace(spec, partial=False)).work_units[-1].high == NOW - DAY_MS
    early = replace(SPEC, end="2020-01-05 00:00:00Z", delay_ms=DAY_MS // 2)
    assert make(early).work_units[-1].high == START + 4 * DAY_MS
