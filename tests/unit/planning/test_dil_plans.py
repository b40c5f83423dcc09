"""Plans of LinkedIn's DIL, for jobs on which no rule of ours differs from it.

DIL's own planner (MultistageSource of release 0.2.119) made the plans, with the clock set to each
case's ``now``: of random jobs, those are kept that add a form of a text, a property or a date.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from dil import api
from dil.text.zones import EPOCH

CASES = Path(__file__).parents[2] / "golden/dil/plans.jsonl"


@pytest.mark.parametrize("line", CASES.read_text(encoding="utf-8").splitlines())
def test_a_plan_is_that_of_dil(line: str) -> None:
    case = json.loads(line)
    made = api.plan(
        case["properties"],
        now=EPOCH + timedelta(milliseconds=case["now"]),
        history=case["history"],
        activation=case.get("activation"),
    )

    assert made.full_extract is case["full"]
    assert [
        {
            "signature": unit.signature,
            "low": unit.low,
            "high": unit.high,
            "start": unit.not_before or case["now"],
        }
        for unit in made.work_units
    ] == case["work_units"]
