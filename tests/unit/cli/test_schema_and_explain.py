"""``dil schema`` and ``dil explain`` as commands."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from dil.cli.error_codes import CODES
from dil.cli.explain import explain
from dil.cli.main import main
from dil.cli.schema import schema
from dil.errors import ConfigError, DilError
from tests.jobs import ROOT


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


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def test_a_code_is_explained_and_its_beginning_lists_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "credentials were refused" in told(capsys, "DIL-SRC-AUTH")
    listed = told(capsys, "dil-src")
    assert {"DIL-SRC", "DIL-SRC-TRANSIENT", "DIL-SRC-AUTH", "DIL-SRC-CONTRACT"} <= set(
        listed.split()
    )
    assert "DIL-WRITE" not in listed
    codes = json.loads(told(capsys, "DIL-", "--json"))["codes"]
    assert {each["code"] for each in codes} == set(CODES)
    assert main(["explain", "DIL-NOTHING"]) == 2
    assert "Known codes: DIL-CONFIG" in capsys.readouterr().err


def test_codes_are_those_of_the_errors_and_of_the_page() -> None:
    def codes(kind: type[DilError]) -> set[str]:
        return {kind.code}.union(*map(codes, kind.__subclasses__()))

    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(DIL-[A-Z-]+)` \| (.*?) \| (.*?) ?\|$", page, re.MULTILINE)
    plain = [
        (code, *(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text) for text in texts))
        for code, *texts in rows
    ]
    assert [(code, *words) for code, words in CODES.items()] == plain
    assert {each for each in codes(DilError) if each.startswith("DIL-")} <= set(CODES)


def test_words_are_looked_for_in_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    assert "ms.grace.period " in told(capsys, "grace", "period")
    found = json.loads(told(capsys, "grace period", "--json"))["found"]
    assert "ms.grace.period" in [each["property"] for each in found]
    assert main(["explain", "no such words here"]) == 2
    assert "is no known property" in capsys.readouterr().err


def test_properties_of_a_jobs_own_connector_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "conf" / "examples" / "custom_connector", tmp_path / "job")
    [job] = (tmp_path / "job").glob("*.conf")
    text = (tmp_path / "job" / "my_connector.py").read_text()
    name = re.search(r'"(ms\.x\.[a-z.]+)"', text)
    assert name is not None
    assert main(["explain", name[1]]) == 2
    assert "--job JOB.conf" in capsys.readouterr().err
    assert "of my_connector:" in told(capsys, name[1], "--job", str(job))
