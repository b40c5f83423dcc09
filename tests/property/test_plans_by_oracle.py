"""The planner against one written straight from the rules, over random jobs and histories."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dil.model.history import UnitRecord
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec
from dil.planning import BareHistory, plan
from dil.planning.partitions import partition
from tests.property.planning_oracle import expected, signature

HOUR_MS = 3_600_000
NOW = 1_600_000_000_000
UNITS = ('{"id":"a"}', '{"id":"b/c"}', '{"id":"b%2Fc"}', '{"id":1}', "{}")
KINDS = ("none", "good", "good", "part", "early", "future", "bare start", "failed", "again", "owed")

periods = st.integers(0, 8).map(lambda halves: halves * DAY_MS // 2)


@st.composite
def jobs(draw: st.DrawFn) -> PlanningSpec:
    word = draw(st.sampled_from(("none", "hourly", "daily", "daily", "weekly", "monthly")))
    days = draw(st.integers(0, {"hourly": 1, "daily": 12}.get(word, 60)))
    form = draw(st.sampled_from(("P{}D", "P{}DT5H", "P{}DT30M")))
    mode = draw(st.sampled_from(("plain", "plain", "plain", "backfill", "replace", "window")))
    return PlanningSpec(
        datetime_name=draw(st.sampled_from(("datetime", "a/b"))),
        start=form.format(days),
        end=draw(st.sampled_from(("-", "P0D", "P1D"))),
        unit_name="u",
        units=tuple(draw(st.lists(st.sampled_from(UNITS), min_size=1, unique=True))),
        partition=word,
        partial=draw(st.booleans()),
        grace_ms=draw(periods),
        abstinent_ms=draw(periods),
        backfill=mode == "backfill",
        ignore_history=mode == "replace",
        read_from_partition_start=mode == "window",
        limit=None if mode in ("backfill", "replace") else draw(
            st.sampled_from((None, 1, 2, 3, 5, 8, 500))
        ),
    )  # fmt: skip


def _known(kind: str, name: str, low: int, end: int, attempts: int) -> int | UnitRecord | None:
    middle = low + max(1, (end - low) // 2)
    failed = {"failed": None, "again": end, "owed": middle}
    if kind in failed:
        owed = end + DAY_MS if kind == "owed" else None
        return UnitRecord(name, low, failed[kind], failed=True, attempts=attempts, owed=owed)
    found = {"good": end, "part": middle, "early": low - DAY_MS, "future": end + 3 * DAY_MS}
    return low if kind == "bare start" else found.get(kind)


@st.composite
def stories(draw: st.DrawFn) -> tuple[PlanningSpec, dict[str, int | UnitRecord]]:
    spec = draw(jobs())
    made = partition(spec, now_ms=NOW)
    history: dict[str, int | UnitRecord] = {}
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=len(KINDS), unique=True))
    for low, end in zip(made.starts, made.ends, strict=True):
        for unit in spec.units or ():
            name = signature(spec, low, unit)
            kind = draw(st.sampled_from(kinds))
            value = _known(kind, name, low, end, draw(st.integers(1, 3)))
            history |= {} if value is None else {name: value}
    for low in draw(st.lists(st.integers(NOW - 99 * DAY_MS, NOW + DAY_MS), max_size=2)):
        history.setdefault(signature(spec, low, '{"id":"gone"}'), low + 90 * DAY_MS)
        history.setdefault(f"[watermark.other.{low}, watermark.u.{UNITS[0]}]", NOW * 2)
    return spec, history


@given(stories())
@settings(max_examples=500, deadline=None)
def test_a_plan_says_what_the_rulings_say(
    story: tuple[PlanningSpec, dict[str, int | UnitRecord]],
) -> None:
    spec, history = story
    whole = partition(spec, now_ms=NOW)
    wanted = expected(spec, list(zip(whole.starts, whole.ends, strict=True)), history)

    made = plan(spec, now_ms=NOW, history=BareHistory(history), explain=True)

    assert [
        (unit.signature, unit.low, unit.high, unit.partition.low, unit.reason.value)
        for unit in made.work_units
    ] == wanted.work_units
    assert (made.skipped, made.left, made.left_low, made.cutoff) == (
        wanted.skipped, wanted.left, wanted.left_low, wanted.cutoff,
    )  # fmt: skip
    assert len(made.skips) == made.skipped


@given(stories())
@settings(max_examples=100, deadline=None)
def test_work_units_made_on_demand_are_those_of_the_plan(
    story: tuple[PlanningSpec, dict[str, int | UnitRecord]],
) -> None:
    spec, history = story

    lazy = plan(spec, now_ms=NOW, history=BareHistory(history))
    eager = lazy.at_once()

    assert lazy == eager
    assert eager == lazy
    assert hash(lazy) == hash(eager)
    assert [lazy.work_units[at] for at in range(len(lazy.work_units))] == [*eager.work_units]
    assert lazy.work_units[1:3] == eager.work_units[1:3]


@given(stories())
@settings(max_examples=150, deadline=None)
def test_a_run_that_has_work_is_never_planned_empty(
    story: tuple[PlanningSpec, dict[str, int | UnitRecord]],
) -> None:
    spec, history = story

    made = plan(spec, now_ms=NOW, history=BareHistory(history))

    assert made.work_units or not made.left
    assert spec.limit is None or not made.left or len(made.work_units) == spec.limit
