"""The JVM of a local session, in the place of which a script stands here."""

from __future__ import annotations

import os

import pytest

from dil.errors import ExecutionError
from dil.execution.jvm import StartingJvm


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return a function that lets a text of bash be Spark's launcher."""

    def place(text):
        launcher = tmp_path / "bin" / "spark-submit"
        launcher.parent.mkdir()
        launcher.write_text(f"#!/bin/bash\n{text}\n")
        launcher.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    return place


def started():
    return StartingJvm({"spark.app.name": "a job"}, {**os.environ, "JAVA_HOME": "/some/java"})


def test_one_that_ends_at_once_is_an_error_that_names_the_java(script):
    script("exit 3")
    with pytest.raises(ExecutionError, match="it ended with code 3") as caught:
        started().gateway()
    assert "/some/java" in caught.value.fix


@pytest.mark.parametrize(("hard", "says"), [(200, True), (1024, False), (-1, False)])
def test_the_advice_names_the_limit_of_open_files_only_if_it_is_low(
    script, monkeypatch, hard, says
):
    monkeypatch.setattr("resource.getrlimit", lambda _: (min(200, hard), hard))
    script("exit 3")
    with pytest.raises(ExecutionError) as caught:
        started().environ()
    assert ("ulimit -n" in caught.value.fix) is says


def test_its_output_is_passed_on_without_the_noise_of_the_launcher(script, capfd):
    script('echo "WARNING: Using incubator modules" >&2; echo "no such option" >&2; exit 1')
    with pytest.raises(ExecutionError):
        started().gateway()
    assert capfd.readouterr().err == "no such option\n"


def test_it_never_asks_for_the_address_of_the_host_name(script, capfd):
    script('echo "$SPARK_LOCAL_IP"; exit 1')
    with pytest.raises(ExecutionError):
        started().gateway()
    assert capfd.readouterr().err == "127.0.0.1\n"


def test_all_of_its_output_goes_to_standard_error(script, capfd, monkeypatch):
    monkeypatch.setattr("sys.__stderr__", None)  # as in a process that is nobody's child
    script("echo to the one; echo to the other >&2; exit 1")
    with pytest.raises(ExecutionError):
        started().gateway()
    assert capfd.readouterr() == ("", "to the one\nto the other\n")


def test_without_a_standard_error_its_output_does_not_stop_it(script, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    script("for i in {1..20000}; do echo a line of output >&2; done; exit 3")
    with pytest.raises(ExecutionError, match="it ended with code 3"):
        started().gateway()


def test_settings_reach_it_as_they_are(script, tmp_path):
    script(f'printf "%s\\n" "$@" > {tmp_path}/arguments; exit 1')
    with pytest.raises(ExecutionError):
        started().gateway()
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert arguments == ["--conf=spark.app.name=a job", "pyspark-shell"]
