"""Kill -9 between any two steps of a run that publishes to S3, then run again."""

from __future__ import annotations

import pytest

from tests.dumps import dump_story, give
from tests.integration.killed_jobs import HERE, check_kills, chosen, kill_server
from tests.integration.places import visible
from tests.integration.s3_places import Bucket, use
from tests.marks import all_long_but
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import day
from tests.torture.kills import restore

PATHS = (
    "append", f"append, {HERE}, keep successes", f"replace, {HERE}", "window replace",
)  # fmt: skip


@pytest.fixture(scope="module")
def kills(moto):
    with kill_server(lambda patch: use(moto.url, patch)) as server:
        yield server


@pytest.mark.parametrize("path", all_long_but(PATHS, "append"))
def test_a_run_killed_at_any_step_and_run_again_publishes_exactly_the_source(
    path, tmp_path, moto, kills
):
    check_kills(Bucket(moto), path, tmp_path, kills)


@pytest.mark.long
def test_a_dump_killed_at_any_step_and_run_again_holds_exactly_the_files_of_the_source(
    tmp_path, moto, kills
):
    before = {"a": b"first a", "in/b": b"first b, which is longer than the second one"}
    after = {"a": b"second a, longer", "in/b": b"2nd b", "new/c": b"c" * 100_000}
    bucket, here = Bucket(moto), tmp_path / "job"

    def dumped():
        return {key.removeprefix("lake/"): bucket.objects(key)[key] for key in visible(bucket)}

    with HttpServer(Dataset.generate(1)) as source:
        place = {"data__publisher__final__dir": f"{bucket.uri}/lake"}
        dump_story(here, source, *after, **place).job()
        for name, body in {**after, **before}.items():
            give(source, name.replace("/", "%2F"), body)
        assert kills.run(here / "orders.conf", day(4))["exit"] == 0
        assert dumped() == {**after, **before}
        for name, body in after.items():
            give(source, name.replace("/", "%2F"), body)
        objects = bucket.objects()
        restore(here, tmp_path / "before")
        whole = kills.run(here / "orders.conf", day(6))
        assert whole["exit"] == 0
        assert dumped() == after

        for at in chosen(whole["events"]):
            bucket.restore(objects)
            restore(tmp_path / "before", here)
            assert kills.run(here / "orders.conf", day(6), at)["killed"]
            step = f"killed at {at}: {whole['events'][at]}"
            old = {**after, **before}
            wrong = [n for n, body in dumped().items() if body not in (after[n], old[n])]
            assert wrong == [], f"half a file is visible, {step}"
            assert kills.run(here / "orders.conf", day(6))["exit"] == 0, step
            assert dumped() == after, step
