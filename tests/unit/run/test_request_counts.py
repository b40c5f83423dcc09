"""The report counts every request that the source got, those that a session repeats too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dil.run.job_run import run_job
from tests.servers.http_server import Fault, HttpServer
from tests.stories import Story, day, failing


def test_repeats_inside_an_attempt_count_as_requests_and_retries(
    tmp_path: Path, source: HttpServer
) -> None:
    source.faults.append(Fault("status", at=(1,), status=429, headers=(("Retry-After", "0"),)))
    story = Story(tmp_path, source, ms__http__retry__max="2")

    report = story.run(day(1))

    assert report.requests == source.count("/records") == report.units.planned + 1
    assert report.retries == 1


def test_requests_for_work_that_is_adopted_count_in_the_run_that_sent_them_alone(
    tmp_path: Path, source: HttpServer
) -> None:
    story = Story(tmp_path, source)
    source.faults.append(failing(1, "b"))
    assert story.run(day(2)).exit_code == 1
    source.faults.clear()
    before = source.count("/records")

    report = story.run(day(2))

    assert report.units.adopted
    assert report.requests == source.count("/records") - before
    assert report.rows_read < report.rows


def test_a_job_file_that_was_named_by_a_relative_path_is_absolute_in_tasks(
    tmp_path: Path, source: HttpServer, monkeypatch
) -> None:
    story = Story(tmp_path, source)
    monkeypatch.chdir(tmp_path)
    options = story.options(day(1))
    assert options.executor is not None
    seen: list[str] = []
    execute = options.executor.execute

    def noting(context, *rest):
        seen.append(context.job.path)
        return execute(context, *rest)

    monkeypatch.setattr(options.executor, "execute", noting)
    run_job(replace(story.job(), path="orders.conf"), options)
    assert seen == [str(tmp_path / "orders.conf")]
