"""Late rows and derived datasets: those of an input that a query reads, and its own."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dil.cli.main import main
from dil.errors import StateError
from dil.operator.lineage import Tracer
from dil.operator.replaying import ReplayOutcome
from dil.run.process import real_clock
from dil.storage.local import LocalFilesystem
from tests.derived import Lake
from tests.killed import KilledError, killed

HOUR = 3_600_000
SCHEMA = [
    {"columnName": "id", "dataType": {"type": "long"}},
    {"columnName": "seen", "dataType": {"type": "long"}},
]
EVENTS = {
    "ms.event.column": "seen",
    "ms.event.watermark": "bounded",
    "ms.event.delay": "PT0S",
    "ms.event.max.future": "P9999D",
}
BESIDE = {**EVENTS, "ms.late.action": "side_table"}


class Meters(Lake):
    """A lake whose root job reads readings, which may come late, ``seen`` in hours."""

    def __init__(self, folder):
        super().__init__(folder)
        self.readings = self.root(BESIDE)

    def root(self, events):
        return self.of_files("readings", SCHEMA, events)

    def over(self, name, sql, *, late=True, **changes):
        """Write the job file of a dataset that is derived from the readings."""
        inputs = json.dumps([{"job": "readings.conf", "as": "readings", "late": late}])
        return self.derive(name, sql, ms__query__inputs=inputs, **changes)

    def put(self, *hours):
        """Let readings come, with their hours as ids, and publish them."""
        self.put_rows([{"id": hour, "seen": hour * HOUR} for hour in hours])
        report = self.run(self.readings)
        assert report.exit_code == 0, report.failures
        return report

    def beside(self, name):
        """Return the ids of the late rows beside a dataset."""
        found = Counter()
        for file in (self.folder / "lake" / "shop").glob(f"{name}_late/part-*.parquet"):
            found.update(pq.read_table(file)["id"].to_pylist())
        return found

    def outcomes(self, path):
        return [each.outcome for each in self.replayed(path)]


@pytest.fixture
def meters(tmp_path):
    return Meters(tmp_path)


def test_append_takes_the_late_rows_of_the_new_blocks_each_once(meters):
    every = meters.over("every", "SELECT id, _watermark IS NOT NULL AS was_late FROM readings")
    on_time = meters.over("on_time", "SELECT id FROM readings", late=False)
    for hours in ((1, 5), (2, 6), (3,), (9,)):
        meters.put(*hours)
        meters.run(every)
        meters.run(on_time)

    assert meters.beside("readings") == Counter([2, 3])
    assert meters.ids("every") == Counter([1, 5, 2, 6, 3, 9])
    assert meters.ids("on_time") == Counter([1, 5, 6, 9])
    late = [
        row
        for file in (meters.folder / "lake" / "shop" / "every").glob("part-*.parquet")
        for row in pq.read_table(file).to_pylist()
        if row["was_late"]
    ]
    assert Counter(row["id"] for row in late) == Counter([2, 3])
    assert meters.run(every).status == "nothing_due"
    assert meters.verify(every).problems == ()
    assert set(meters.outcomes(every)) == {ReplayOutcome.SAME}


def test_late_rows_that_an_undo_brought_back_are_not_read_again(meters):
    every = meters.over("every", "SELECT id FROM readings")
    readings = str(meters.readings)
    meters.put(1, 5)
    meters.put(2, 6)
    meters.run(every)
    assert main(["state", "forget", readings, "--all", "--withdraw-files", "--yes"]) == 0
    assert main(["state", "undo", readings, "--yes"]) == 0
    meters.now = max(meters.now, real_clock() + 60_000)
    meters.put(3, 8)
    meters.run(every)
    assert meters.ids("every") == Counter([1, 5, 2, 6, 3, 8])

    assert main(["state", "forget", readings, "--all", "--withdraw-files", "--yes"]) == 0
    with pytest.raises(StateError, match="away that were read before"):
        meters.run(every)


def test_rows_of_an_abandoned_publish_are_not_late_when_they_are_read_again(meters):
    meters.readings = meters.root({**EVENTS, "ms.late.action": "drop"})
    meters.put(1, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFilesystem, "move", killed)
        with pytest.raises(KilledError):
            meters.put(6, 9)
    assert main(["runs", "abandon", str(meters.readings), "--yes"]) == 0
    meters.now = max(meters.now, real_clock() + 60_000)
    meters.run(meters.readings)

    assert meters.ids("readings") == Counter([1, 5, 6, 9])


def test_full_takes_all_late_rows_that_are_there(meters):
    every = meters.over("every", "SELECT id FROM readings", ms__query__mode="full")
    meters.put(1, 5)
    meters.put(2)
    meters.run(every)
    assert meters.ids("every") == Counter([1, 5, 2])
    meters.put(3)
    assert meters.run(every).rows == 4
    assert set(meters.outcomes(every)) == {ReplayOutcome.SAME}


def test_a_late_row_leads_to_its_file_beside_the_input(meters):
    every = meters.over("every", "SELECT id FROM readings")
    meters.put(1, 5)
    meters.put(2, 6)
    meters.run(every)
    (block,) = Tracer(meters.job(every), lambda: meters.now, meters.job).row("id=2")

    (above,) = block.inputs[0].blocks
    (file,) = above.files
    assert (file.first, file.uri.rpartition("/")[0].endswith("/readings_late")) == (None, True)
    assert above.units[0].signature.endswith('0002.json"}]')


@pytest.mark.parametrize("action", ["flag", "side_table", "drop", ""])
def test_rows_of_a_query_are_judged_by_a_watermark_of_their_own(meters, action):
    meters.readings = meters.root({})
    own = {key.replace(".", "__"): text for key, text in EVENTS.items()}
    judged = meters.over(
        "judged", "SELECT id, seen FROM readings", late=False, ms__late__action=action, **own
    )
    first, second = (1, 5), (2, 6)
    meters.put(*first)
    meters.run(judged)
    meters.put(*second)
    report = meters.run(judged)

    assert report.events.counts.late == 1
    parted = action in {"side_table", "drop"}
    assert meters.ids("judged") == Counter([1, 5, 6, *([] if parted else [2])])
    assert meters.beside("judged") == Counter([2] if action == "side_table" else [])
    if action == "flag":
        marked = Counter(
            row["id"]
            for file in (meters.folder / "lake" / "shop" / "judged").glob("part-*.parquet")
            for row in pq.read_table(file).to_pylist()
            if row["_late"]
        )
        assert marked == Counter([2])
    assert meters.data(judged)[-1]["newWatermark"] == "1970-01-01T06:00:00.000Z"
    assert meters.verify(judged).problems == ()
    assert meters.outcomes(judged) == [ReplayOutcome.SAME, ReplayOutcome.SAME]
    assert meters.data(judged)[-1]["judgedBy"]["watermark"] == 5 * HOUR
    other = "drop" if action != "drop" else "flag"
    meters.over("judged", "SELECT id, seen FROM readings", ms__late__action=other, **own)
    assert meters.outcomes(judged) == [ReplayOutcome.SKIPPED, ReplayOutcome.SKIPPED]


def test_the_watermark_of_a_derived_dataset_does_not_pass_that_of_its_input(meters):
    own = {key.replace(".", "__"): text for key, text in EVENTS.items()}
    ahead = meters.over(
        "ahead", "SELECT id, seen + 3600000 AS seen FROM readings", late=False, **own
    )
    meters.put(1, 5)
    meters.run(ahead)

    assert meters.data(ahead)[-1]["newWatermark"] == "1970-01-01T05:00:00.000Z"
    assert meters.verify(ahead).problems == ()


def test_lateness_and_the_watermark_of_a_derived_dataset_are_shown(meters, capsys):
    meters.readings = meters.root({})
    own = {key.replace(".", "__"): text for key, text in EVENTS.items()}
    judged = meters.over("judged", "SELECT id, seen FROM readings", late=False, **own)
    for hours in ((1, 5), (2, 6)):
        meters.put(*hours)
        meters.run(judged)

    assert main(["lateness", str(judged), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert main(["plan", str(judged)]) == 0
    assert "1970-01-01T06:00:00Z" in capsys.readouterr().out


def test_a_stream_judges_the_rows_of_its_query_as_runs_do(meters):
    """Its micro-batches take one block each; the runs came after each block."""
    meters.root({})
    judged = {key.replace(".", "__"): text for key, text in BESIDE.items()}
    daily = meters.over("daily", "SELECT * FROM readings", late=False, **judged)
    streamed = meters.over(
        "streamed",
        "SELECT * FROM readings",
        late=False,
        ms__stream__mode="stateful",
        ms__query__input__max__blocks="1",
        **judged,
    )
    for hours in ((1, 5), (2, 6), (), (3, 9), (7, 10)):
        meters.put(*hours)
        meters.run(daily)

    assert meters.stream(streamed).exit_code == 0
    assert meters.ids("streamed") == meters.ids("daily") == Counter([1, 5, 6, 9, 10])
    assert meters.beside("streamed") == meters.beside("daily") == Counter([2, 3, 7])
    newest, before = meters.data(streamed)[-1], meters.data(daily)[-1]
    assert newest["newWatermark"] == before["newWatermark"]
    assert newest["stream"]["end"]["done"] == 10 * HOUR
    assert set(meters.outcomes(streamed)) == {ReplayOutcome.SAME}
    assert meters.verify(streamed).problems == ()
