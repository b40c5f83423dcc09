"""A failed work unit is due again only where this reading can make up for it."""

from dil.model.history import UnitRecord
from dil.model.job import DAY_MS, PlanningSpec
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
