"""What ``ms.retention`` lets ``dil state prune`` and ``dil state expire`` delete."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import StateError
from dil.state.blocks.verification import verify_chain
from tests.jobs import dataset, visible_files
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS
from tests.stories import Story, day, ids_of


@pytest.fixture
def story(tmp_path: Path, source: HttpServer) -> Story:
    return Story(tmp_path, source)


class Verbs:
    """Calls ``dil state`` about the job of a story."""

    def __init__(self, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = story.folder / "orders.conf"
        self._capsys = capsys

    def __call__(self, verb: str, *options: str, code: int = 0) -> str:
        self._capsys.readouterr()
        assert main(["state", verb, str(self._path), *options]) == code
        told = self._capsys.readouterr()
        return told.err + told.out


def test_prune_goes_by_a_period_of_its_own_for_runs(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    story.run(day(3))
    story.clock += 1000
    story.run(day(3), story.job(ms__backfill="true"))
    story.changes["ms__retention"] = '{"log":"P7D"}'
    story.job()
    week = story.clock + 7 * DAY_MS
    moment = datetime.fromtimestamp(week / 1000, UTC).isoformat(timespec="milliseconds")
    assert "1 row of old runs to be deleted" in verbs("prune", "--now", moment)
    del story.changes["ms__retention"]
    story.job()
    assert "nothing to change" in verbs("prune", "--now", moment)


def test_a_run_does_not_append_published_rows_whose_records_were_pruned(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    story.run(day(3))
    begin_at(story, "2020-01-03")
    story.run(day(4))
    story.changes["ms__retention"] = '{"state.store":"P7D"}'
    story.job()
    month = datetime.fromtimestamp((story.clock + 30 * DAY_MS) / 1000, UTC).isoformat()
    verbs("prune", "--now", month, "--yes")
    published = story.rows()

    begin_at(story, "2020-01-01")
    with pytest.raises(StateError, match="dil state prune deleted its record"):
        story.run(day(4))
    assert story.rows() == published

    begin_at(story, "2020-01-03")
    assert story.run(day(4)).exit_code == 0
    assert story.rows() == published
    begin_at(story, "2020-01-01")
    assert story.run(day(4), accept_new_signatures=True).exit_code == 0
    assert story.rows() - published == ids_of("a", "b", days=range(2))


def begin_at(story: Story, begin: str) -> None:
    time = {"name": "system", "type": "datetime", "range": {"from": begin, "to": "P0D"}}
    units = {"name": "unit", "type": "unit", "units": "a,b"}
    story.changes["ms__watermark"] = json.dumps([time, units])


def test_expire_shows_what_is_too_old_and_deletes_it_for_good(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs = Verbs(story, capsys)
    story.run(day(3))
    story.changes["ms__retention"] = '{"publish.dir":"P731D"}'
    story.job()
    late = ("--now", "2025-12-31T00:00:00Z")

    assert "nothing to change" in verbs("expire", "--now", "2022-12-31T00:00:00Z")
    shown = verbs("expire", *late)
    assert "24 rows: deleted from the dataset for good" in shown
    assert (
        json.loads(verbs("expire", "--json", *late))["files"]["fate"]
        == "deleted from the dataset for good"
    )
    assert len(visible_files(story.folder)) == 6
    told = verbs("expire", *late, "--yes", "--reason", "two years are over")

    assert told.splitlines()[-1].endswith("; this cannot be undone")
    assert visible_files(story.folder) == []
    with story.store() as store:
        assert verify_chain(store).is_sound
    assert "the last act deleted published files" in verbs("undo", code=1)


def test_a_plan_says_how_many_files_are_due_to_expire(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = [str(story.folder / "orders.conf"), "--now", "2025-12-31T00:00:00Z"]

    def planned(*options: str) -> str:
        capsys.readouterr()
        assert main(["plan", *plan, *options]) == 0
        printed = capsys.readouterr()
        return printed.out + printed.err

    story.run(day(3))
    assert "expire" not in planned("--short")
    story.changes["ms__retention"] = '{"publish.dir":"P731D"}'
    story.job()
    size = sum(path.stat().st_size for path in visible_files(story.folder))
    line = f"Due to expire: 6 files of {size:,} bytes, published up to 2023-12-31 00:00+00:00;"
    for options in (("--short",), ()):
        assert f"  {line} `dil state expire {plan[0]}` deletes them.\n" in planned(*options)
    expiring = json.loads(planned("--json"))["expiring"]
    assert (expiring["files"], expiring["bytes"]) == (6, size)
    assert expiring["published_until_iso"] == "2023-12-31T00:00:00Z"

    manifest = dataset(story.folder) / "_dil" / "manifest-0.json"
    content = manifest.read_text()
    manifest.write_text("{")
    assert "cannot determine which published files are due to expire" in planned("--short")
    manifest.write_text(content)
    story.changes |= {"ms__publish__mode": "replace", "ms__work__unit__parallelism__max": "5000"}
    story.job()
    assert "expire" not in planned("--short"), "its old files hold the newest rows"
    del story.changes["ms__publish__mode"]
    story.job()
    assert main(["state", "expire", *plan, "--yes"]) == 0
    assert "expire" not in planned("--short")
    assert "expiring" not in json.loads(planned("--json"))
