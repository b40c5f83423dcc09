"""``dil state`` reads a real store and changes nothing."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dil.cli.main import main
from dil.model.dataset import Commit, Move, PublishedFile, RunWork, WorkUnitOutcome
from dil.model.job import StateSpec
from dil.state import open_store
from dil.text.zones import iso

if TYPE_CHECKING:
    from conftest import Loads

LOW, HIGH = 1709596800000, 1709683200000
NOW = HIGH + 1000


def signature(unit: str) -> str:
    return f"[watermark.system.{LOW}, watermark.unit.{unit}]"


def outcome(unit: str, high: int | None) -> WorkUnitOutcome:
    return WorkUnitOutcome(
        signature=signature(unit),
        unit_key=f"unit.{unit}",
        low=LOW,
        expected_high=HIGH,
        high=high,
        attempts=2,
        error="" if high else "refused",
    )


@pytest.fixture
def spec(loads: "Loads", tmp_path: Path) -> StateSpec:
    spec = StateSpec(directory=str(tmp_path / "state"))
    # Not where the tests put files, which no manifest lists.
    place = replace(loads.job.publishing, final_dir=str(tmp_path / "lake"))
    loads.job = replace(loads.job, state=spec, publishing=place)
    return spec


@pytest.fixture
def committed(spec: StateSpec) -> None:
    commit = Commit(
        run_id="r1", config_digest="0" * 64, source_name="orders", moves=(), removes=(),
        schema="", system_time=NOW, horizon=NOW,
        run=RunWork((outcome("{}", HIGH), outcome('{"id":"x"}', None))),
    )  # fmt: skip
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        lease = store.acquire_lease("r1", lease_s=60)
        store.commit(lease, commit)
        store.release_lease(lease)


def test_a_job_that_never_ran_has_no_head_and_no_work_units(
    spec: StateSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "show", "orders.conf", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == {"head": None, "work_units": [], "failures": []}
    assert not Path(spec.directory).exists()


@pytest.mark.usefixtures("committed")
def test_show_as_json_keeps_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", "orders.conf", "--json"]) == 0

    state = json.loads(capsys.readouterr().out)
    assert state["head"]["event"]["kind"] == "AddData"
    assert state["head"]["hash"].startswith("f1220")
    asked = {"signature", "low", "high", "status", "attempts"}
    assert [one.keys() for one in state["work_units"]] == [asked | {"low_iso", "high_iso"}] * 2
    assert state["work_units"][1]["high_iso"] == iso(HIGH)
    assert state["work_units"][1]["signature"] == signature("{}")
    assert state["work_units"][1]["high"] == HIGH


@pytest.mark.usefixtures("committed")
def test_log_as_json_lists_blocks_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "log", "orders.conf", "--json"]) == 0

    numbers = [block["sequenceNumber"] for block in json.loads(capsys.readouterr().out)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] == 0


def test_the_log_of_an_empty_chain_is_an_empty_array(
    spec: StateSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "log", "orders.conf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["state", "log", "orders.conf"]) == 0
    assert "no run has committed yet: the chain is empty" in capsys.readouterr().out


@pytest.mark.usefixtures("committed")
def test_people_see_dates_and_states(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "show", "orders.conf"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders  times in UTC"
    assert "AddData" in lines[1]
    assert lines[-1].startswith("COMMITTED ")
    assert lines[-1].endswith(signature("{}"))
    assert "2024-03-05 00:00+00:00        2024-03-06 00:00+00:00 " in lines[-1]
    assert " -  " in lines[-2], "a work unit that never succeeded has no high watermark"


@pytest.mark.usefixtures("committed")
def test_each_unit_with_one_work_unit_is_there_once(capsys: pytest.CaptureFixture[str]) -> None:
    """So are files that are read once: how far a unit is done would be said twice."""
    assert main(["state", "show", "orders.conf"]) == 0

    text = capsys.readouterr().out
    assert text.count('{"id":"x"}') == 1
    assert "done without a hole" not in text


@pytest.mark.usefixtures("committed")
def test_the_log_for_people_is_one_line_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "log", "orders.conf"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders  times in UTC, newest block first"
    assert "Seed" in lines[-1]
    assert "  2024-03-06 00:00:01+00:00  AddData  " in lines[1]
    assert lines[1].split()[-1].startswith("f1220")
    assert len(lines[1].split()[-1]) == 12


def test_a_damaged_store_is_exit_code_1_with_its_code(
    spec: StateSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(spec.directory).mkdir()
    (Path(spec.directory) / "state.db").write_bytes(b"this is no database" * 100)

    assert main(["state", "show", "orders.conf"]) == 1
    assert "[DIL-STATE]" in capsys.readouterr().err


# verify


@pytest.fixture
def published(spec: StateSpec, tmp_path: Path) -> Path:
    """A commit with one published file of 12 bytes."""
    path = tmp_path / "out/orders/part 1.avro"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"twelve bytes")
    target = PublishedFile(path.as_uri(), signature("{}"), 3, 12, "ab" * 32, "r1")
    commit = Commit(
        run_id="r1", config_digest="0" * 64, source_name="orders",
        moves=(Move("/staged", target),), removes=(),
        schema="id: int64", system_time=NOW, horizon=NOW, run=RunWork((outcome("{}", HIGH),)),
    )  # fmt: skip
    with open_store(spec, "orders", clock=lambda: NOW) as store:
        store.commit(store.acquire_lease("r1", lease_s=60), commit)
    return path


@pytest.mark.usefixtures("published")
def test_a_sound_state_is_verified_with_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["state", "verify", "orders.conf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "job": "orders", "sound": True, "blocks": 4, "files": 1, "problems": [],
    }  # fmt: skip
    assert main(["state", "verify", "orders.conf"]) == 0
    assert capsys.readouterr().out == "orders  SOUND  blocks 4, live files 1\n"


def test_a_published_file_that_changed_or_went_away_is_exit_code_1(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published.write_bytes(b"eleven byte")
    assert main(["state", "verify", "orders.conf"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "orders  NOT SOUND  problems 1, blocks 4, live files 1"
    assert lines[1] == f"  V20: {published.as_uri()} has 11 bytes, 12 were published"

    published.unlink()
    assert main(["state", "verify", "orders.conf", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["sound"] is False
    assert found["problems"] == [f"V20: {published.as_uri()} is gone, 12 were published"]


@pytest.mark.usefixtures("published")
def test_every_problem_of_a_store_that_was_changed_by_hand_is_printed(
    spec: StateSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(spec.directory) / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE work_unit SET attempts = 9")
        connection.execute("UPDATE mc_block SET block_hash = 'f1220ff' WHERE seq = 1")

    assert main(["state", "verify", "orders.conf", "--json"]) == 1
    codes = {problem[:3] for problem in json.loads(capsys.readouterr().out)["problems"]}
    assert codes == {"V03", "V06", "V22"}


def test_a_job_that_never_ran_has_nothing_to_verify(
    spec: StateSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["state", "verify", "orders.conf"]) == 0
    assert "nothing to verify" in capsys.readouterr().out
    assert not Path(spec.directory).exists()
