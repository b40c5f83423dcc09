"""``dil state gaps``: its JSON to the letter, its table, its window; it changes nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dil.cli.main import main
from dil.model.dataset import Commit, RunWork, WorkUnitOutcome
from dil.model.interval import DAY_MS
from dil.model.job import PlanningSpec, StateSpec
from dil.state import open_store

if TYPE_CHECKING:
    from conftest import Loads

START = 1709251200000  # 2024-03-01T00:00:00Z
NOW = ("--now", "2024-03-06T12:00:00Z")
UNITS = ('{"id":"é"}', '{"n":1.50}')


def outcome(day: int, unit: str, *, ok: bool = True) -> WorkUnitOutcome:
    low = START + day * DAY_MS
    high = low + DAY_MS
    key = f"unit.{unit}"
    signature = f"[watermark.datetime.{low}, watermark.{key}]"
    return WorkUnitOutcome(signature, key, low, high, high if ok else None, 1, "" if ok else "x")


@pytest.fixture
def spec(loads: "Loads", tmp_path: Path) -> StateSpec:
    spec = StateSpec(directory=str(tmp_path / "state"))
    planning = PlanningSpec(
        start="2024-03-01", end="-", units=UNITS, partition="daily", partial=False, zone="UTC"
    )
    loads.job = replace(loads.job, state=spec, planning=planning)
    return spec


@pytest.fixture
def committed(spec: StateSpec) -> None:
    outcomes = (
        outcome(0, UNITS[0]), outcome(1, UNITS[0]), outcome(2, UNITS[0], ok=False),
        outcome(3, UNITS[0]), outcome(1, '{"id":"gone"}'),
    )  # fmt: skip
    commit = Commit("r1", "c", "dil/orders", (), (), "", START, START, RunWork(outcomes))
    with open_store(spec, "orders", clock=lambda: START) as store:
        lease = store.acquire_lease("r1", lease_s=60)
        store.commit(lease, commit)
        store.release_lease(lease)


def interval(low: str, high: str, status: str) -> dict[str, object]:
    def ms(text: str) -> int:
        day, _, hour = text.removeprefix("2024-03-").partition("T")
        return START + (int(day) - 1) * DAY_MS + int(hour[:2]) * 3_600_000

    return {"from": low, "to": high, "from_ms": ms(low), "to_ms": ms(high), "status": status}


def at(day: int, hour: int = 0) -> str:
    return f"2024-03-{day:02}T{hour:02}:00:00Z"


@pytest.mark.usefixtures("committed")
def test_the_json_keeps_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "gaps", "orders.conf", "--json", *NOW]) == 0

    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {
        "job": "orders",
        "from": at(1),
        "to": at(6, 12),
        "from_ms": START,
        "to_ms": START + 11 * DAY_MS // 2,
        "units": [
            {
                "unit": {"id": "é"},
                "intervals": [
                    interval(at(1), at(3), "committed"),
                    interval(at(3), at(4), "failed"),
                    interval(at(4), at(5), "committed"),
                    interval(at(5), at(6), "never"),
                    interval(at(6), at(6, 12), "open"),
                ],
            },
            {
                "unit": {"n": 1.5},
                "intervals": [
                    interval(at(1), at(6), "never"),
                    interval(at(6), at(6, 12), "open"),
                ],
            },
            {
                "unit": {"id": "gone"},
                "in_job": False,
                "intervals": [
                    interval(at(1), at(2), "never"),
                    interval(at(2), at(3), "committed"),
                    interval(at(3), at(6, 12), "never"),
                ],
            },
        ],
    }
    assert '{"n":1.50}' in out, "numbers stay as they are written"


@pytest.mark.usefixtures("committed")
def test_a_window_cuts_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--from", at(2, 6), "--to", "2024-03-03"]
    assert main(["state", "gaps", "orders.conf", "--json", *NOW, *window]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["from"], found["to"]) == (at(2, 6), at(3))
    assert found["units"][0]["intervals"] == [interval(at(2, 6), at(3), "committed")]

    assert main(["state", "gaps", "orders.conf", "--json", *NOW, "--from", "P1D"]) == 0
    assert json.loads(capsys.readouterr().out)["from"] == at(5), "counted back from --now"


@pytest.mark.usefixtures("committed")
def test_people_see_a_table_of_each_unit_after_a_summary(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["state", "gaps", "orders.conf", *NOW]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders  2024-03-01 00:00+00:00 .. 2024-03-06 12:00+00:00, times in UTC"
    assert lines[1] == (
        "  2 units, 2 with gaps: committed 4 d, failed 1 d, open 1 d, never 10 d 12 h"
    )
    assert lines[2] == "  1 unit more only in the state"
    assert lines[4] == 'unit.{"id":"é"}'
    assert lines[6].split() == [
        "2024-03-03", "00:00+00:00", "2024-03-04", "00:00+00:00", "1", "d", "failed",
    ]  # fmt: skip
    assert 'unit.{"id":"gone"}  (no unit of the job any more)' in lines


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("end", "length"),
    [
        ("2024-03-01T00:00:01.500Z", "1.5 s"),
        ("2024-03-01T00:02:05Z", "2 min 5 s"),
        ("2024-03-01T23:00:05Z", "23 h"),
        ("2024-03-02T01:30:00Z", "1 d 1 h"),
    ],
)
def test_lengths_have_their_two_largest_parts(
    end: str, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "gaps", "orders.conf", *NOW, "--to", end]) == 0
    line = capsys.readouterr().out.split('unit.{"id":"é"}\n')[1].splitlines()[0]
    assert line.endswith(f"  {length}  committed")


def test_a_job_that_never_ran_has_only_gaps_and_stays_without_state(
    spec: StateSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "gaps", "orders.conf", *NOW]) == 0
    out = capsys.readouterr().out
    assert "2 units, 2 with gaps: open 1 d, never 10 d" in out
    assert not Path(spec.directory).exists()


@pytest.mark.usefixtures("committed")
def test_a_window_without_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--from", "2024-03-05", "--to", "2024-03-05"]
    assert main(["state", "gaps", "orders.conf", *NOW, *window]) == 2
    assert "--from is 2024-03-05 00:00+00:00, which is not before --to" in capsys.readouterr().err


def test_units_that_the_source_names_are_not_asked_for(
    spec: StateSpec, loads: "Loads", capsys: pytest.CaptureFixture[str]
) -> None:
    loads.job = replace(loads.job, planning=replace(loads.job.planning, units=None))
    assert main(["state", "gaps", "orders.conf", *NOW]) == 0
    assert "which was not asked: only recorded units are listed" in capsys.readouterr().out


def test_without_state_it_says_so(
    spec: StateSpec, loads: "Loads", capsys: pytest.CaptureFixture[str]
) -> None:
    loads.job = replace(loads.job, state=replace(spec, enabled=False))
    assert main(["state", "gaps", "orders.conf", *NOW]) == 0
    assert "the job keeps no state" in capsys.readouterr().out
