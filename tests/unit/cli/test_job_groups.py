"""``dil state JOB`` and ``dil runs JOB`` show; what is no job is a typo."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.cli.main import main
from tests.jobs import write_job


@pytest.mark.parametrize(("group", "verb"), [("state", "show"), ("runs", "list")])
def test_a_job_in_place_of_a_verb_is_shown(
    group: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(write_job(tmp_path, "http://127.0.0.1:9"))
    assert main([group, verb, job, "--json"]) == 0
    spelt_out = capsys.readouterr().out

    assert main([group, job, "--json"]) == 0
    assert capsys.readouterr().out == spelt_out


def test_a_job_without_an_ending_is_found_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders").write_text("job.name=orders\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert main(["state", "orders"]) == 2
    assert "which is no job file" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["state", "runs"])
def test_a_path_is_a_job_whatever_it_is_named(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("./show", "./absent.d/list"):
        assert main([group, name]) == 2
        told = capsys.readouterr().err
        assert name in told
        assert "No such command" not in told


@pytest.mark.parametrize("group", ["state", "runs"])
def test_a_typo_is_no_job(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group, "lists"]) == 2
    assert "No such command" in capsys.readouterr().err
