"""Warnings of a job file stay warnings beside a problem; after a wanted change, rewrite the texts.

The texts are what `dil validate`, `dil validate --json` and `dil run` print.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dil.cli.main import main

FOLDER = Path(__file__).parents[2] / "golden" / "findings"


@pytest.fixture(autouse=True)
def beside_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


@pytest.mark.parametrize("command", ["validate", "run"])
def test_warnings_are_told_beside_a_problem(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "mixed.conf"]) == 2
    assert capsys.readouterr().err == (FOLDER / "mixed.txt").read_text()
    assert sorted(path.name for path in FOLDER.iterdir()) == [
        "mixed.conf",
        "mixed.json",
        "mixed.txt",
    ]


def test_json_has_findings_of_both_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "mixed.conf", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((FOLDER / "mixed.json").read_text())
    assert not found["valid"]
    assert all(found[kind] for kind in ("problems", "warnings", "notices"))
