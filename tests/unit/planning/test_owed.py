"""A failed work unit is due again only where this reading can make up for it."""

from dil.model.history import UnitRecord
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec
from dil.planning import BareHistory, plan

START = 1_577_836_800_000  # 2020-01-01T00:00:00Z
SIGNATURE = f"[watermark.datetime.{START}, watermark.unit.{{}}]"


def planned(owed: int) -> list[str]:
    spec = PlanningSpec(start="2020-01-01", end="2020-01-03", partition="daily", zone="UTC")
    newer = f"[watermark.datetime.{START + DAY_MS}, watermark.unit.{{}}]"
    history = BareHistory(
        {
            SIGNATURE: UnitRecord(SIGNATURE, START, START + DAY_MS // 2, failed=True, owed=owed),
            newer: START + 2 * DAY_MS,
        }
    )
    made = plan(spec, now_ms=START + 3 * DAY_MS, history=history)
    return [unit.signature for unit in made.work_units]


def test_a_partition_that_reaches_what_is_owed_is_read_again():
    assert planned(owed=START + DAY_MS) == [SIGNATURE]


def test_a_finer_partition_with_the_same_start_is_not_read_again_for_ever():
    assert planned(owed=START + 31 * DAY_MS) == []


def test_a_retry_does_not_run_before_the_rest_of_an_older_partition():
    """Units a and b: January was read up to the 10th, a later backfill of February failed for b."""
    spec = PlanningSpec(
        start="2020-01-01", end="2020-03-01", partition="monthly", zone="UTC", limit=2,
        units=('{"u":"a"}', '{"u":"b"}'), unit_name="u",
    )  # fmt: skip
    february = START + 31 * DAY_MS
    records = {}
    for unit in spec.units or ():
        signature = f"[watermark.datetime.{START}, watermark.u.{unit}]"
        records[signature] = UnitRecord(signature, START, START + 9 * DAY_MS)
    failed = f'[watermark.datetime.{february}, watermark.u.{{"u":"b"}}]'
    records[failed] = UnitRecord(failed, february, None, failed=True)

    made = plan(spec, now_ms=START + 70 * DAY_MS, history=BareHistory(records))

    taken = [(unit.partition.low, unit.unit["u"]) for unit in made.work_units]
    assert (february, "b") not in taken or (START, "b") in taken
    assert (START, "a") in taken


def test_a_place_that_an_overtaking_retry_gives_up_goes_to_the_rest_before_it():
    """Or a limit of 1 would plan nothing, run for run, although two work units are due."""
    spec = PlanningSpec(
        start="2020-01-01", end="2020-03-01", partition="monthly", zone="UTC", limit=1,
        grace_ms=60 * DAY_MS,
    )  # fmt: skip
    february = START + 31 * DAY_MS
    failed = f"[watermark.datetime.{february}, watermark.unit.{{}}]"
    records = {
        SIGNATURE: UnitRecord(SIGNATURE, START, START + 9 * DAY_MS),
        failed: UnitRecord(failed, february, february + DAY_MS, failed=True),
    }

    made = plan(spec, now_ms=START + 70 * DAY_MS, history=BareHistory(records))

    assert [unit.signature for unit in made.work_units] == [SIGNATURE]
    assert made.left == 1
