"""``dil schema`` and ``dil explain`` as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dil.cli.explain import explain
from dil.cli.main import main
from dil.cli.schema import schema
from dil.errors import ConfigError


def test_the_schema_is_printed_or_written_to_a_file(tmp_path: Path) -> None:
    printed = CliRunner().invoke(schema, []).output
    target = tmp_path / "job.schema.json"
    assert CliRunner().invoke(schema, ["-o", str(target)], standalone_mode=False).return_value == 0
    assert target.read_text() == printed
    assert json.loads(printed)["$schema"].endswith("2020-12/schema")


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    target = str(tmp_path / "no" / "folder")
    result = CliRunner().invoke(schema, ["-o", target], standalone_mode=False)
    assert isinstance(result.exception, ConfigError)


def test_explain_without_a_name_lists_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert "http " in capsys.readouterr().out


def test_explain_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ms.http.statuses", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["default"].startswith('{"success"')
    result = CliRunner().invoke(explain, ["--json"])
    assert json.loads(result.output)["groups"][0]["group"] == "identity"


def test_an_unknown_property_is_exit_code_2_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explain", "ms.parametrs"]) == 2
    assert 'Did you mean "ms.parameters"?' in capsys.readouterr().err
