"""What needs no Spark starts none: a java on the path would tell."""

from __future__ import annotations

import json

import pytest

from dil.errors import ExecutionError
from dil.execution import java
from tests.integration.dil_processes import dil_alone, report_of
from tests.jobs import write_job
from tests.servers.http_server import HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset
from tests.stories import Story

NOW = "2020-01-03T00:00:00Z"
NOW_MS = START_MS + 2 * DAY_MS


@pytest.fixture(scope="module")
def source():
    with HttpServer(Dataset.generate(8, units=("a", "b"), step_ms=DAY_MS // 4)) as server:
        yield server


@pytest.fixture(scope="module")
def trap(tmp_path_factory):
    """An environment whose only java leaves a mark when it is started, and fails."""
    folder = tmp_path_factory.mktemp("trap")
    mark = folder / "java-was-started"
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n: > {mark}\nexit 1\n")
    program.chmod(0o755)
    return {"PATH": str(program.parent), "JAVA_HOME": str(folder)}, mark


@pytest.fixture(scope="module")
def done_job(tmp_path_factory, source):
    """A job that has run up to NOW."""
    story = Story(tmp_path_factory.mktemp("done"), source)
    assert story.run(NOW_MS).rows == 16
    return write_job(story.folder, source.url)


def test_the_trap_works(trap, monkeypatch) -> None:
    environ, mark = trap
    monkeypatch.setattr(java, "_PLACES", ())

    with pytest.raises(ExecutionError):
        java.find_java(environ)

    assert mark.exists()
    mark.unlink()


@pytest.mark.parametrize(
    ("verb", "flags"),
    [
        ("run", f"--json --now {NOW}"),
        ("run", f"--now {NOW}"),
        ("run", "--json -D job.disabled=true"),
        ("plan", f"--json --now {NOW}"),
        ("plan", "--now 2020-01-09T00:00:00Z"),
        ("validate", "--json"),
        ("state show", "--json"),
        ("state log", "--json"),
        ("state gaps", f"--json --now {NOW}"),
    ],
)
def test_a_command_without_work_to_do_starts_no_java(verb, flags, trap, done_job) -> None:
    environ, mark = trap

    done = dil_alone(*verb.split(), done_job, *flags.split(), environ=environ)

    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not mark.exists()


@pytest.mark.parametrize("wrong", ["ms.watermark=[{]", "source.class=nothing.of:Mine"])
def test_a_job_that_is_wrong_starts_no_java(wrong, trap, done_job, tmp_path) -> None:
    environ, mark = trap

    done = dil_alone("run", done_job, "--json", "-D", wrong, environ=environ)

    assert done.returncode == 2
    assert report_of(done)["failures"][0]["code"] in {"DIL-CONFIG", "DIL-PLUGIN-CLASS"}
    assert not mark.exists()


def test_a_run_with_nothing_due_says_so_to_machines_and_people(trap, done_job) -> None:
    environ, _ = trap

    report = report_of(dil_alone("run", done_job, "--json", "--now", NOW, environ=environ))
    told = dil_alone("run", done_job, "--now", NOW, environ=environ)

    assert report["status"] == "nothing_due"
    assert report["work_units"] == dict.fromkeys(report["work_units"], 0)
    assert "NOTHING DUE" in told.stdout


def test_the_state_of_a_job_is_shown_as_its_runs_left_it(trap, done_job) -> None:
    environ, _ = trap

    shown = json.loads(dil_alone("state", "show", done_job, "--json", environ=environ).stdout)

    assert {unit["status"] for unit in shown["work_units"]} == {"COMMITTED"}
    assert len(shown["work_units"]) == 4
    assert shown["head"]["hash"]
