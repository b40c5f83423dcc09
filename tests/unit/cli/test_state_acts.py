"""What operators do to a job's state: each act is previewed, is one commit, and can be undone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import ConfigError, WriteError
from dil.model.dataset import Commit, RunWork, WorkUnitOutcome
from dil.model.report import RunStatus
from dil.publishing.publisher import Publisher
from dil.state.blocks.verification import verify_chain
from dil.storage.local import LocalFilesystem
from tests.jobs import dataset
from tests.servers.http_server import HttpServer
from tests.stories import (
    REAL_NOW,
    ROWS_PER_DAY,
    STEP_MS,
    Story,
    day,
    failing,
    ids_of,
    snapshot,
    work_unit,
)

pytestmark = pytest.mark.slow

WINDOWS = {"ms__publish__mode": "window_replace"}


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


@pytest.fixture
def act(story: Story, capsys: pytest.CaptureFixture[str]) -> Act:
    return Act(story, capsys)


class Act:
    """Calls ``dil state`` about the story's job."""

    def __init__(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = str(story.folder / "orders.conf")
        self._capsys = capsys
        self.error = ""

    def __call__(self, verb: str, *options: str, code: int = 0) -> str:
        self._capsys.readouterr()
        now = () if verb in {"show", "log", "verify"} else ("--now", iso(3))
        assert main(["state", verb, self._path, *now, *options]) == code
        told = self._capsys.readouterr()
        self.error = told.err
        return told.out

    def json(self, verb: str, *options: str) -> dict:
        return json.loads(self(verb, "--json", *options))


def iso(number: int) -> str:
    return f"2020-01-0{number + 1}T00:00:00Z"


def statuses(story: Story) -> list[str]:
    return [state.status for state in story.states().values()]


def is_sound(story: Story) -> bool:
    with story.store() as store:
        return verify_chain(store).is_sound


# Preview and consent


def test_without_yes_an_act_is_only_shown(story: Story, act: Act) -> None:
    story.run(day(3))
    before = (story.head(), story.states())

    told = act("forget", "--signature", work_unit(1, "a"), "--keep-files")

    assert "forget  1 work unit would change" in told
    assert "COMMITTED  2020-01-03 00:00+00:00" in told
    assert "PENDING    -" in told
    assert "1 published file with 4 rows: kept" in told
    assert "DOUBLED ROWS: the next run appends these 4 rows a second time" in told
    assert "due in the next run: 1 work unit" in told
    assert "nothing was changed; --yes does it" in told
    assert (story.head(), story.states()) == before


def test_the_preview_as_json_tells_changes_files_and_the_next_plan(story: Story, act: Act) -> None:
    story.run(day(3))

    told = act.json("forget", "--from", "2020-01-02", "--to", "2020-01-03", "--keep-files")

    assert told["applied"] is False
    assert [each["signature"] for each in told["changes"]] == [work_unit(1, "a"), work_unit(1, "b")]
    assert told["changes"][0]["to"] == {
        "low": day(1), "high": None, "status": "PENDING", "attempts": 0,
    }  # fmt: skip
    assert told["doubled_rows"] == told["files"]["rows"] == 8
    assert told["next_run"]["signatures"] == [work_unit(1, "a"), work_unit(1, "b")]


def test_an_act_on_a_job_that_never_ran_changes_and_creates_nothing(story: Story, act: Act) -> None:
    story.job()
    assert "nothing to change" in act("forget", "--all")
    assert not (story.folder / "state").exists()


def test_an_act_waits_for_no_run_and_says_who_holds_the_lease(story: Story, act: Act) -> None:
    story.run(day(3))
    with story.store() as store:
        lease = store.acquire_lease("someone", lease_s=10**9)
        act("forget", "--all", "--yes", "--keep-files", code=3)
        store.release_lease(lease)
    assert "someone" in act.error


def test_an_unfinished_publish_is_finished_by_a_run_before_any_act(
    story: Story, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise WriteError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "carry_out", broken)
        assert story.run(day(3)).status is RunStatus.FAILED
    act("forget", "--all", "--yes", "--keep-files", code=1)
    assert "began to publish and has not finished" in act.error


@pytest.mark.parametrize("options", [(), ("--all", "--unit", "{}"), ("--all", "--failed")])
def test_forget_needs_to_know_what(story: Story, act: Act, options: tuple[str, ...]) -> None:
    story.job()
    act("forget", *options, code=2)
    assert "--signature, --unit, --from, --to, --failed, or --all alone" in act.error


# Forget


def test_what_is_forgotten_is_read_again_as_new(story: Story, act: Act) -> None:
    story.run(day(3))
    act("forget", "--unit", '{"unit": "a"}', "--from", "2020-01-02", "--keep-files", "--yes")

    assert sorted(statuses(story)) == ["COMMITTED"] * 4 + ["PENDING"] * 2
    report = story.run(day(3))

    assert report.units.planned == 2
    assert statuses(story) == ["COMMITTED"] * 6
    assert story.rows() == ids_of("a", "b", days=range(3)) + ids_of("a", days=range(1, 3))
    assert is_sound(story)


def test_append_refuses_to_double_rows_unasked(story: Story, act: Act) -> None:
    story.run(day(3))
    act("forget", "--all", "--yes", code=2)
    assert "the next run would publish these rows a second time" in act.error
    told = act("forget", "--all").splitlines()
    assert "needs a decision" in told[-2]
    assert told[-1].endswith("; --yes with --withdraw-files or --keep-files does it")
    assert act.json("forget", "--all")["needs"] == ["--withdraw-files", "--keep-files"]
    assert act.json("forget", "--all", "--keep-files")["needs"] == []
    assert set(statuses(story)) == {"COMMITTED"}


def test_window_replace_needs_no_decision_and_doubles_nothing(story: Story, act: Act) -> None:
    story.changes.update(WINDOWS)
    story.run(day(3))
    told = act("forget", "--all", "--yes")
    assert "replaced by the next run (window_replace)" in told
    assert "DOUBLED" not in told
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("verb", [("forget", "--all"), ("rewind", "--to", "0")])
def test_files_are_kept_or_withdrawn_and_not_both(
    story: Story, act: Act, verb: tuple[str, ...]
) -> None:
    story.run(day(3))
    act(*verb, "--keep-files", "--withdraw-files", "--yes", code=2)
    assert "--withdraw-files exclude each other" in act.error
    assert "Give one of them." in act.error


def test_the_preview_says_that_the_next_run_is_refused_and_why(story: Story, act: Act) -> None:
    story.run(day(3))
    story.changes["ms__timezone"] = "Europe/Berlin"
    story.job()

    told = act("forget", "--signature", work_unit(1, "a"), "--keep-files")

    assert "the next run's work units are not shown: the run would be refused" in told
    assert "its rows would be read and published again" in told
    assert act.json("forget", "--unit", '{"unit":"a"}', "--keep-files")["next_run"] is None
    with pytest.raises(ConfigError, match="would be read and published again"):
        story.run(day(3))


def test_a_job_that_would_know_nothing_any_more_is_not_refused(story: Story, act: Act) -> None:
    story.run(day(3))
    story.changes["ms__timezone"] = "Europe/Berlin"
    story.job()
    told = act("forget", "--all", "--withdraw-files", "--yes")
    assert "due in the next run: 6 work units" in told
    assert story.run(day(3)).units.planned == 6


def test_a_job_whose_work_units_are_all_forgotten_begins_anew(story: Story, act: Act) -> None:
    story.run(day(3))
    act("forget", "--all", "--withdraw-files", "--yes")
    with story.store() as store:
        assert store.history().is_empty()
        assert store.history().coverage('unit.{"unit":"a"}') is None


def test_forgetting_an_unknown_signature_is_an_error(story: Story, act: Act) -> None:
    story.run(day(3))
    act("forget", "--signature", work_unit(9, "a"), "--keep-files", code=1)
    assert work_unit(9, "a") in act.error


# Withdraw


def test_withdrawn_files_are_gone_until_undo_brings_the_same_bytes_back(
    story: Story, act: Act
) -> None:
    story.run(day(3))
    before = {name: size for name, (size, _) in snapshot(dataset(story.folder)).items()}

    told = act("forget", "--unit", '{"unit":"a"}', "--withdraw-files", "--yes")

    assert "3 published files with 12 rows: withdrawn from the dataset" in told
    assert "the dataset's watermark becomes 2020-01-01T00:00:00.000Z" in told
    assert story.rows() == ids_of("b", days=range(3))
    assert is_sound(story)
    assert "SOUND" in act("verify")

    told = act("undo", "--yes")

    assert "brought back" in told
    assert story.rows() == ids_of("a", "b", days=range(3))
    after = {name: size for name, (size, _) in snapshot(dataset(story.folder)).items()}
    parts = {name: size for name, size in after.items() if not name.startswith("_")}
    assert parts == {name: size for name, size in before.items() if not name.startswith("_")}
    assert not list((dataset(story.folder) / "_dil").rglob("withdrawn/*"))
    assert act("verify").startswith("orders  SOUND")
    assert story.run(day(3)).status is RunStatus.NOTHING_DUE


def test_withdrawn_rows_are_read_again_once(story: Story, act: Act) -> None:
    story.run(day(3))
    act("forget", "--unit", '{"unit":"a"}', "--withdraw-files", "--yes")
    story.run(day(3))
    assert story.rows() == ids_of("a", "b", days=range(3))
    act("undo", "--yes", code=1)
    assert "runs committed 3 of its work units since" in act.error


def test_a_withdrawal_that_crashed_is_finished_by_the_next_run(
    story: Story, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.run(day(3))

    def full(*_: object) -> None:
        raise WriteError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "delete_file", full)
        act("forget", "--unit", '{"unit":"a"}', "--withdraw-files", "--yes", code=1)
    report = story.run(day(3))

    assert report.recovered
    assert report.units.planned == 3
    assert story.rows() == ids_of("a", "b", days=range(3))
    assert is_sound(story)


def test_a_file_that_was_changed_since_is_not_withdrawn(story: Story, act: Act) -> None:
    story.run(day(3))
    part = next(path for path in dataset(story.folder).rglob("part-*.parquet"))
    part.chmod(0o644)
    part.write_bytes(part.read_bytes() + b"x")
    before = story.states()
    act("forget", "--all", "--withdraw-files", "--yes", code=1)
    assert "is not the file that was published" in act.error
    assert story.states() == before


def test_files_that_the_chain_never_saw_are_not_withdrawn(story: Story, act: Act) -> None:
    story.run(day(1), story.job(state__store__enabled="false"))
    story.job()
    path = import_file(story.folder, ("orders", work_unit(0, "a"), day(1)))
    act("import", path, "--yes")

    act("forget", "--all", "--withdraw-files", "--yes", code=1)

    assert "published while no state was kept" in act.error
    assert statuses(story) == ["COMMITTED"]
    assert story.rows() == ids_of("a", "b", days=range(1))
    assert not list((dataset(story.folder) / "_dil").rglob("withdrawn/*"))


# Rewind


def test_rewind_makes_the_state_what_it_was_and_the_next_run_repeats_the_rest(
    story: Story, act: Act
) -> None:
    story.run(day(2))
    then = story.states()
    at = story.head()
    assert at is not None
    story.run(day(4))

    told = act("rewind", "--to", str(at["sequenceNumber"]), "--withdraw-files", "--yes")

    assert "4 work units to change" in told
    assert "the dataset's watermark becomes 2020-01-03T00:00:00.000Z" in told
    assert story.states() == then
    assert story.rows() == ids_of("a", "b", days=range(2))
    head = story.head()
    assert head is not None
    state = head["event"]["newSourceState"]["value"]
    was = at["event"]["newSourceState"]["value"]
    assert {name: state[name] for name in ("digest", "counts", "maxHigh", "frontier")} == {
        name: was[name] for name in ("digest", "counts", "maxHigh", "frontier")
    }
    story.run(day(4))
    assert story.rows() == ids_of("a", "b", days=range(4))
    assert is_sound(story)


def test_rewind_to_a_time_is_to_the_last_block_before_it(story: Story, act: Act) -> None:
    story.run(day(2))
    story.clock += 3_600_000
    then = story.states()
    story.run(day(4))
    act("rewind", "--to", "2022-09-27T00:30:00Z", "--keep-files", "--yes")
    assert story.states() == then


def test_a_block_that_does_not_exist_is_an_error(story: Story, act: Act) -> None:
    story.run(day(2))
    act("rewind", "--to", "99", code=2)
    assert "--to 99: the chain of orders has no such block, the first block is of" in act.error
    act("rewind", "--to", "1999-01-01", code=2)
    act("show", "--as-of", "99", code=2)
    act("rewind", "--to", "tomorrow", code=2)


# Undo


def test_undo_restores_rows_coverage_and_watermark_and_once_more_does_it_again(
    story: Story, act: Act
) -> None:
    story.run(day(3))
    states = story.states()
    with story.store() as store:
        coverage = store.history().coverage('unit.{"unit":"a"}')
    act("forget", "--from", "2020-01-02", "--keep-files", "--yes")
    assert "takes back forget" in act("undo", "--yes")
    assert story.states() == states
    with story.store() as store:
        assert store.history().coverage('unit.{"unit":"a"}') == coverage
    assert "takes back undo" in act("undo", "--yes")
    assert statuses(story).count("PENDING") == 4
    assert is_sound(story)


def test_undo_passes_over_runs_that_touched_other_work_units(story: Story, act: Act) -> None:
    story.run(day(2))
    act("forget", "--signature", work_unit(0, "a"), "--keep-files", "--yes")
    other = WorkUnitOutcome(work_unit(5, "b"), 'unit.{"unit":"b"}', day(5), day(6), day(6), 1)
    with story.store() as store:
        lease = store.acquire_lease("other", lease_s=60)
        now = REAL_NOW + 10**9
        store.commit(
            lease, Commit("other", "c", "dil/orders", (), (), "", now, now, RunWork((other,)))
        )
        store.release_lease(lease)
    act("undo", "--yes")
    assert set(statuses(story)) == {"COMMITTED"}
    assert len(statuses(story)) == 5
    assert is_sound(story)


def test_there_is_nothing_to_undo_where_no_operator_acted(story: Story, act: Act) -> None:
    story.run(day(2))
    act("undo", "--yes", code=1)
    assert "nothing to undo" in act.error


# Import


def import_file(folder: Path, *rows: tuple[str, str, object], name: str = "dil.csv") -> str:
    path = folder / name
    if name.endswith(".csv"):
        lines = ["job,signature,high"]
        lines += ['{},"{}",{}'.format(j, s.replace('"', '""'), high) for j, s, high in rows]
    else:
        lines = [json.dumps({"job": j, "signature": s, "high": high}) for j, s, high in rows]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("name", ["dil.csv", "dil.jsonl"])
def test_a_job_that_comes_from_dil_goes_on_where_it_was(story: Story, act: Act, name: str) -> None:
    story.job()
    rows = [("orders", work_unit(d, u), day(d + 1)) for d in range(2) for u in "ab"]
    rows += [("other", work_unit(0, "a"), day(1)), ("orders", work_unit(2, "a"), day(2))]
    path = import_file(story.folder, *rows, name=name)

    told = act("import", path)
    assert "6 rows read, 4 high watermarks of this job" in told
    assert "left out: 1 row of 1 other job" in told
    assert "left out, because they never succeeded: 1 work unit" in told
    assert "of the job as it is configured now: 4 work units" in told
    assert "due in the next run: 2 work units" in told
    assert not (story.folder / "state").exists()

    act("import", path, "--yes")
    with story.store() as store:
        coverage = store.history().coverage('unit.{"unit":"a"}')
        assert coverage is not None
        assert (coverage.covered_from, coverage.covered_to) == (day(0), day(2))
    report = story.run(day(3))
    assert report.units.planned == 2
    assert story.rows() == ids_of("a", "b", days=range(2, 3))
    assert is_sound(story)


def test_an_import_that_fits_nothing_is_warned_of(story: Story, act: Act) -> None:
    story.job()
    path = import_file(story.folder, ("orders", "[watermark.x.5, watermark.unit.{}]", 9))
    assert "WARNING: none of them is a work unit of this job" in act("import", path)


def test_a_known_high_is_not_lowered_unless_that_is_wanted(story: Story, act: Act) -> None:
    story.run(day(3))
    path = import_file(story.folder, ("orders", work_unit(1, "a"), day(1) + 5))
    act("import", path, "--yes", code=1)
    assert "known high watermarks would be lowered: 1, the first for" in act.error
    act("import", path, "--yes", "--replace")
    assert story.states()[work_unit(1, "a")].high == day(1) + 5
    assert is_sound(story)


def test_an_import_below_what_a_failed_work_unit_owes_leaves_its_rest_due(
    story: Story, act: Act
) -> None:
    story.source.faults.append(failing(1, "b"))
    story.changes["job__commit__policy"] = "successful"
    story.run(day(3))
    story.source.faults.clear()
    path = import_file(story.folder, ("orders", work_unit(1, "b"), day(1) + STEP_MS))

    act("import", path, "--yes")

    state = story.states()[work_unit(1, "b")]
    assert (state.status, state.high) == ("FAILED", day(1) + STEP_MS)
    story.run(day(3))
    read_elsewhere = Counter({("b", ROWS_PER_DAY): 1})
    assert story.rows() == ids_of("a", "b", days=range(3)) - read_elsewhere
    assert set(statuses(story)) == {"COMMITTED"}


def test_an_import_is_undone_without_a_trace_in_the_index(story: Story, act: Act) -> None:
    story.job()
    path = import_file(story.folder, ("orders", work_unit(0, "a"), day(1)))
    act("import", path, "--yes")
    act("undo", "--yes")
    assert story.states() == {}
    assert is_sound(story)
    assert len(act.json("show", "--as-of", "2")["work_units"]) == 1


# Prune


def test_prune_deletes_old_records_out_of_the_range_alone(story: Story, act: Act) -> None:
    def watermark(start: str) -> str:
        return json.dumps(
            [
                {"name": "system", "type": "datetime", "range": {"from": start, "to": "P0D"}},
                {"name": "unit", "type": "unit", "units": "a,b"},
            ]
        )

    story.changes["ms__watermark"] = watermark("P2D")
    story.run(day(3))
    story.clock += 1000
    story.run(day(6))
    states = story.states()
    assert len(states) == 8

    assert "nothing to change" in act("prune", "--now", iso(6))
    late = ("--now", "2022-12-31T00:00:00Z")
    story.changes["ms__retention"] = '{"state.store":"P9999D"}'
    story.job()
    assert "nothing to change" in act("prune", *late)
    del story.changes["ms__retention"]
    story.job()
    told = act("prune", *late, "--yes")
    assert "6 work units to change" in told
    assert "1 row of old runs to be deleted; undo leaves them out" in told
    assert "`dil state undo` takes it back" in told
    assert set(story.states()) == {work_unit(5, "a"), work_unit(5, "b")}
    assert is_sound(story)
    act("undo", "--yes")
    assert story.states() == states
    assert is_sound(story)


def test_prune_of_old_runs_alone_keeps_the_newest_and_says_that_it_is_final(
    story: Story, act: Act
) -> None:
    for _ in range(3):
        story.run(day(3))
        story.changes["ms__backfill"] = "true"
        story.clock += 1000
    del story.changes["ms__backfill"]
    story.job()
    before = (story.head(), story.states())
    late = ("--now", "2023-12-31T00:00:00Z")

    assert "2 rows of old runs to be deleted; this cannot be undone" in act("prune", *late)
    told = act("prune", *late, "--yes")

    assert told.splitlines()[-1].startswith("done: prune-")
    assert told.splitlines()[-1].endswith("; this cannot be undone")
    assert "takes it back" not in told
    assert (story.head(), story.states()) == before
    with story.store() as store:
        assert [run.run_id for run in store.runs()] == ["run-3"]
    assert "nothing to change" in act("prune", *late, "--yes")


# Looking back


def test_show_and_log_tell_the_state_as_it_was(story: Story, act: Act) -> None:
    story.run(day(1))
    head = story.head()
    assert head is not None
    story.run(day(3))
    at = str(head["sequenceNumber"])
    told = act.json("show", "--as-of", at)
    assert told["head"] == head
    assert [each["signature"] for each in told["work_units"]] == [
        work_unit(0, "a"), work_unit(0, "b"),
    ]  # fmt: skip
    assert told["work_units"][0].keys() == {
        "signature", "low", "high", "low_iso", "high_iso", "status", "attempts",
    }  # fmt: skip
    assert json.loads(act("log", "--json", "--as-of", at))[0] == head
    assert len(json.loads(act("log", "--json", "--limit", "2"))) == 2


def test_show_tells_how_far_each_unit_is_done_and_finds_what_is_open(
    story: Story, act: Act
) -> None:
    story.source.faults.append(failing(1, "b"))
    story.changes["job__commit__policy"] = "successful"
    story.run(day(3))
    lines = act("show").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("done without a hole"))
    assert lines[start + 1].split("  ")[0].startswith("2020-01-04")
    assert lines[start + 2].startswith("2020-01-02")
    assert lines[start + 2].split()[-3:-1] == ["1", "1"]
    assert [one["signature"] for one in act.json("show", "--failed")["work_units"]] == [
        work_unit(1, "b")
    ]
    assert len(act.json("show", "--unit", '{"unit":"a"}')["work_units"]) == 3
