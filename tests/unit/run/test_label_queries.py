"""Timelabels and derived datasets: closed labels of inputs, and labels of the rows of a query."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dil import config
from dil.cli.main import main
from dil.errors import ConfigError, StateError
from dil.operator.lineage import Tracer
from dil.operator.replaying import ReplayOutcome, replay
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.queries.slices import input_chains
from dil.state import open_store
from dil.state.blocks.verification import verify_chain
from dil.testing.in_process import InProcessExecutor
from tests.backfills import Backfills
from tests.closing_days import ClosingDays, label
from tests.derived import Lake
from tests.jobs import visible_files
from tests.servers.day_rows import DayRows
from tests.servers.rows import DAY_MS, START_MS


class Derived:
    """A job over the closed days of another one."""

    def __init__(self, days: ClosingDays, **changes: str) -> None:
        self.days = days
        found = {
            "job.name": "final",
            "extract.table.name": "final",
            "extract.namespace": "shop",
            "writer.output.format": "PARQUET",
            "writer.file.path.type": "namespace_table",
            "data.publisher.final.dir": str(days.folder / "lake"),
            "state.store.dir": str(days.folder / "derived"),
            "ms.query.inputs": json.dumps([{"job": days.path.name, "as": "o", "closed": True}]),
            "ms.query.sql": "SELECT id FROM o",
            **{key.replace("__", "."): text for key, text in changes.items()},
        }
        self.path = days.folder / "final.conf"
        self.path.write_text("".join(f"{key}={text}\n" for key, text in found.items()))
        self.job = config.load(self.path, environ={}).job

    def options(self, day, **changes):
        now = START_MS + int(day * DAY_MS)
        return RunOptions(now_ms=now, clock=lambda: now, executor=InProcessExecutor(), **changes)

    def run(self, day, **changes):
        return run_job(self.job, self.options(day, **changes))

    def ids(self):
        files = sorted((self.days.folder / "lake" / "shop" / "final").rglob("part-*.parquet"))
        return Counter(number for file in files for number in pq.read_table(file)["id"].to_pylist())

    def sound(self):
        """Return what is wrong with the chain, and what replays of its blocks find."""
        with (
            open_store(self.job.state, self.job.name, clock=lambda: 0) as store,
            input_chains(self.job.query, lambda: 0) as chains,
        ):
            problems = verify_chain(store, chains=chains).problems
            found = replay(self.job, self.job.query, store, self.options(9))
            return problems, {each.outcome for each in found}


@pytest.fixture
def days(tmp_path):
    with DayRows({}) as source:
        days = ClosingDays(tmp_path, source, ms__grace__period__days="1")
        days.fill(0, 1, 2, 3)
        yield days


def test_each_label_is_taken_once_when_it_is_closed(days):
    final = Derived(days)
    days.run(2)
    assert days.closed(4) == [0]
    assert final.run(2).rows == 3
    days.fill(1, first=50)  # the grace period reads it again, before it is closed
    days.run(3)
    assert final.run(3).rows == 3

    assert days.closed(4) == [0, 1]
    assert final.ids() == Counter([0, 1, 2, 150, 151, 152])
    assert final.run(3).status == "nothing_due"
    assert final.sound() == ((), {ReplayOutcome.SAME})


def test_a_run_waits_for_a_closed_label_and_remembers_its_place_without_one(days):
    final = Derived(days, ms__query__wait="PT10S")
    days.run(1)
    waited = []

    report = final.run(1, sleep=waited.append)

    assert (report.rows, waited) == (0, [5, 5])
    assert final.ids() == Counter()

    def close(seconds):
        del seconds
        days.run(2)

    assert final.run(1, sleep=close).rows == 3


def test_a_reopened_label_is_refused_and_full_reads_what_is_closed(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    with pytest.raises(StateError, match=f"reopens the timelabel {label(0)}, whose rows were read"):
        final.run(3)

    anew = Derived(days, ms__query__mode="full")
    assert anew.run(3).rows == 0
    assert anew.ids() == Counter()
    days.run(3)
    anew.run(3)
    assert anew.ids() == Counter([100, 101, 102])
    assert anew.sound()[0] == ()


def test_a_reopening_that_was_taken_back_changes_nothing(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    with pytest.raises(StateError, match=f"reopens the timelabel {label(0)}, whose rows were read"):
        final.run(2)

    assert main(["state", "undo", str(days.path), "--yes"]) == 0
    assert final.run(2).rows == 0
    days.run(3)
    assert final.run(3).rows == 3
    assert final.ids() == Counter([0, 1, 2, 100, 101, 102])
    assert final.sound() == ((), {ReplayOutcome.SAME})


def test_a_label_that_was_reopened_and_closed_again_with_other_rows_is_refused(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    days.fill(0, first=50)
    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    assert main(["state", "forget", str(days.path), "--all", "--yes"]) == 0
    days.run(3)
    assert days.closed(4) == [0, 1]

    with pytest.raises(StateError, match=f"reopens the timelabel {label(0)}, whose rows were read"):
        final.run(3)


@pytest.mark.parametrize("mode", ["append", "full"])
def test_labels_that_are_closed_before_the_first_row_run_no_query(days, mode):
    days.source.days.clear()
    final = Derived(days, ms__query__mode=mode)
    days.run(2)
    assert days.closed(4) == [0]

    assert (final.run(2).status, final.run(2).status) == ("success", "nothing_due")
    days.fill(1, 2)
    days.run(3)
    assert final.run(3).rows == 3
    assert final.ids() == Counter([100, 101, 102])
    assert final.sound()[0] == ()


def fill_unseen(days, final, day=0, forgotten=("--all",)):
    """Let rows of a closed label be read again by a run that does not look at what is closed."""
    assert main(["state", "forget", str(days.path), *forgotten, "--yes"]) == 0
    days.fill(day, first=50)
    closed = days.closed(4)
    changes = {"ms.timelabel.close": "never"}
    run_job(config.load(days.path, overrides=changes, environ={}).job, final.options(day + 2.5))
    assert days.closed(4) == closed


def test_rows_that_came_for_a_closed_label_without_reopening_it_are_refused(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    fill_unseen(days, final)

    with pytest.raises(StateError, match=f"adds rows of the timelabel {label(0)}, which") as error:
        final.run(3)
    assert "-D ms.query.mode=full -D ms.publish.mode=replace" in error.value.fix
    assert final.ids() == Counter([0, 1, 2])


def test_rows_that_came_unseen_are_refused_behind_a_label_that_was_reopened_since(days):
    """The reopened label was closed after the last run, so nobody has read its rows yet."""
    final = Derived(days)
    days.run(2)
    final.run(2)
    fill_unseen(days, final)
    days.run(3)
    assert main(["timelabels", "reopen", str(days.path), label(1), "--yes"]) == 0

    with pytest.raises(StateError, match=f"adds rows of the timelabel {label(0)}, which"):
        final.run(3)


def test_rows_that_came_unseen_are_refused_for_a_label_behind_the_one_closed_last(days):
    final = Derived(days)
    days.run(3)
    assert main(["timelabels", "reopen", str(days.path), label(0), "--yes"]) == 0
    assert main(["state", "forget", str(days.path), "--all", "--yes"]) == 0
    days.run(3)
    assert days.closed(4) == [0, 1]
    final.run(3)
    work_unit = f"[watermark.system.{START_MS + DAY_MS}, watermark.unit.{{}}]"
    fill_unseen(days, final, day=1, forgotten=("--signature", work_unit))

    with pytest.raises(StateError, match=f"adds rows of the timelabel {label(1)}, which"):
        final.run(4)


@pytest.mark.parametrize("mode", ["append", "full"])
def test_rows_that_an_operator_takes_out_of_a_closed_label_do_not_stay_unnoticed(days, mode):
    final = Derived(days, ms__query__mode=mode)
    days.run(2)
    final.run(2)
    read = final.ids()
    taken = ["state", "forget", str(days.path), "--all", "--withdraw-files", "--yes"]
    assert main(taken) == 0

    if mode == "append":
        with pytest.raises(StateError, match=f"removes rows of the timelabel {label(0)}, which"):
            final.run(3)
    else:
        final.run(3)
        assert final.ids() == Counter()
    assert main(["state", "undo", str(days.path), "--yes"]) == 0
    final.run(3)
    assert final.ids() == read == Counter([0, 1, 2])


def test_rows_that_grew_old_stay_in_what_was_made_of_their_label(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    read = final.ids()
    retention = ["-D", 'ms.retention={"publish.dir": "P1D"}']

    assert main(["state", "expire", str(days.path), "--yes", *retention]) == 0
    assert not [path for path in visible_files(days.folder) if "final" not in path.parts]
    final.run(3)

    assert final.ids() == read == Counter([0, 1, 2])


class Unseeing:
    """The job of the days for backfills, as it is without a look at what is closed."""

    def __init__(self, days):
        self.days, self.clock = days, START_MS + 3 * DAY_MS

    def job(self):
        changes = {"ms.timelabel.close": "never"}
        return config.load(self.days.path, overrides=changes, environ={}).job

    def store(self):
        return open_store(self.job().state, "orders", clock=lambda: self.clock)

    def options(self, now_ms):
        return RunOptions(now_ms=now_ms, clock=lambda: self.clock, executor=InProcessExecutor())


def test_rows_of_a_backfill_that_came_unseen_are_refused_until_it_is_undone(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    days.fill(0, first=50)
    backfills = Backfills(Unseeing(days), 2)
    definition = backfills.take(range(1))
    backfills.publish(definition)
    with pytest.raises(StateError, match=f"adds rows of the timelabel {label(0)}, which"):
        final.run(3)

    backfills.undo(definition)
    assert final.run(3).rows == 0
    assert final.ids() == Counter([0, 1, 2])


def test_full_reads_closed_labels_again_for_which_rows_came_without_reopening_them(days):
    final = Derived(days, ms__query__mode="full")
    days.run(2)
    final.run(2)
    fill_unseen(days, final)

    assert final.run(3).rows == 3
    assert final.ids() == Counter([50, 51, 52])
    assert final.run(3).status == "nothing_due"
    assert final.sound()[0] == ()


def inputs(days, **changes):
    return json.dumps([{"job": days.path.name, "as": "o", **changes}])


def test_closed_cannot_be_changed_behind_rows_that_were_read(tmp_path):
    """Rows of labels that are open then would be read twice, or never."""
    with DayRows({}) as source:
        days = ClosingDays(
            tmp_path, source, ms__grace__period__days="1", ms__publish__mode="append"
        )
        days.fill(0, 1, 2, 3)
        every = Derived(days, ms__query__inputs=inputs(days))
        days.run(1)
        every.run(1)
        days.run(2)
        with pytest.raises(StateError, match="without it: rows of labels that are open") as error:
            Derived(days).run(2)
        assert "-D ms.query.mode=full -D ms.publish.mode=replace" in error.value.fix

        Derived(days, ms__query__mode="full").run(2)
        final = Derived(days)
        days.run(3)
        final.run(3)
        assert len(days.closed(3)) == 2
        assert final.ids() == Counter(each for each in days.ids() if each < 200)
        days.run(4)
        with pytest.raises(StateError, match="read by its closed timelabels: rows of labels that"):
            Derived(days, ms__query__inputs=inputs(days)).run(4)


def test_a_row_of_a_closed_label_leads_to_the_block_that_published_it(days):
    final = Derived(days)
    days.run(2)
    final.run(2)
    (block,) = Tracer(final.job, lambda: 0, lambda path: config.load(path, environ={}).job).row(
        "id=1"
    )

    (above,) = block.inputs[0].blocks
    assert [(file.first, file.last) for file in above.files] == [(1, 1)]
    assert f"watermark.system.{START_MS}" in above.units[0].signature


@pytest.mark.parametrize(
    ("root", "changes", "what"),
    [
        ({"ms__timelabel__close": "never"}, {}, "closes no timelabels"),
        (
            {"ms__publish__mode": "merge", "extract__primary__key__fields": "id"},
            {},
            "its files have rows of several timelabels",
        ),
        (
            {},
            {
                "ms__query__mode": "windowed",
                "ms__query__sql": "",
                "ms__window__column": "id",
                "ms__window__size": "PT1H",
                "ms__window__aggs": '{"rows": "count(*)"}',
            },
            "[0].closed is true, and ms.query.mode=windowed waits for the watermark",
        ),
    ],
)
def test_closed_is_refused_where_no_file_has_the_rows_of_one_closed_label(
    tmp_path, root, changes, what
):
    with DayRows({}) as source:
        days = ClosingDays(tmp_path, source, **root)
    with pytest.raises(ConfigError) as error:
        Derived(days, **changes)
    assert what in str(error.value)


def test_rows_of_a_query_go_to_the_folder_of_the_label_of_their_time(tmp_path):
    lake = Lake(tmp_path)
    labels = {"ms__timelabel__schedule": "@daily", "ms__publish__layout": "timelabel"}
    sql = "SELECT id, CASE WHEN id < 3 THEN id * 86400000 END AS day FROM orders"
    daily = lake.derive("daily", sql, ms__timelabel__column="day", **labels)
    lake.feed(1, 2)
    lake.feed(1, 3)
    assert lake.run(daily).rows == 4

    files = sorted((tmp_path / "lake" / "shop" / "daily").rglob("part-*.parquet"))
    found = Counter()
    for file in files:
        folder = str(file.parent.relative_to(tmp_path / "lake" / "shop" / "daily"))
        ids = pq.ParquetFile(file).read(columns=["id"])["id"].to_pylist()
        found.update((folder, number) for number in ids)
    places = {1: "y=1970/m=01/d=02", 2: "y=1970/m=01/d=03", 3: "y=2023/m=12/d=31"}
    # Row 3 has no time, and the label of the run's period.
    assert found == Counter((f"{places[number]}/h=00/n=00", number) for number in (1, 1, 2, 3))
    parts = lake.data(daily)[-1]["newData"]["parts"]
    assert {part["timelabel"] for part in parts} == {
        "19700102000000", "19700103000000", "20231231000000"
    }  # fmt: skip

    lake.derive("daily", sql, **labels)
    with pytest.raises(ConfigError, match=r"ms\.timelabel\.column is not set"):
        lake.job(daily)
    lake.derive("daily", sql, ms__timelabel__column="day", ms__timelabel__close="auto", **labels)
    with pytest.raises(ConfigError, match=r"ms\.timelabel\.close has no effect with"):
        lake.job(daily)
