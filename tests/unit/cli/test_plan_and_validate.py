"""``dil plan`` and ``dil validate`` on real job files, through the real reader and planner."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dil.cli.main import main

DAY = 86_400_000
MARCH_5 = 1709596800000  # UTC

TEXT = """\
job.name=orders
extract.namespace=shop
extract.table.name=orders
extract.table.type=APPEND_ONLY
ms.timezone=UTC
source.class=http
ms.source.uri=https://shop.test/orders
source.conn.password=hunter2-canary
ms.extractor.class=json
ms.watermark=[{"name":"system","type":"datetime","range":{"from":"2024-03-01","to":"2024-03-04"}}]
ms.work.unit.partition=daily
ms.output.schema=[{"columnName":"id","isNullable":true,"dataType":{"type":"string"}}]
data.publisher.final.dir=out
"""


@pytest.fixture
def conf(tmp_path: Path) -> str:
    path = tmp_path / "orders.conf"
    path.write_text(TEXT)
    return str(path)


def test_plan_as_json_keeps_the_contract(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", conf, "--now", "2024-03-05T00:00:00Z", "--json"]) == 0

    plan = json.loads(capsys.readouterr().out)
    assert plan["job"] == "orders"
    assert plan["now"] == MARCH_5
    assert (plan["full_extract"], plan["cutoff"]) == (True, None)
    assert (plan["skipped"], plan["left"]) == (0, 0)
    first = plan["work_units"][0]
    low = MARCH_5 - 4 * DAY
    assert first["signature"] == f"[watermark.system.{low}, watermark.unit.{{}}]"
    assert (first["low"], first["high"]) == (low, low + DAY)
    assert first["partition"] == {"low": low, "high": low + DAY}
    assert (first["unit"], first["timelabel"], first["reason"]) == ({}, None, "new")


def test_plan_for_people_shows_dates_and_arithmetic(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", conf, "--now", "2024-03-05T00:00:00Z"]) == 0

    out = capsys.readouterr().out
    assert "orders  plan at 2024-03-05 00:00+00:00, times in UTC" in out
    assert "2024-03-01 00:00+00:00  2024-03-02 00:00+00:00" in out
    assert "no record: the whole partition is read" in out


def test_a_property_given_by_d_wins(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--now", "2024-03-05T00:00:00Z", "--json", "-D", "ms.work.unit.partition=none"]

    assert main(["plan", conf, *flags]) == 0
    assert len(json.loads(capsys.readouterr().out)["work_units"]) == 1


def test_planning_leaves_no_trace(conf: str, tmp_path: Path) -> None:
    assert main(["plan", conf, "--json"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["orders.conf"]


def test_a_plan_is_kept_in_a_file_and_told_how_to_run_it(
    conf: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"

    assert main(["plan", conf, "--now", "2024-03-05T00:00:00Z", "--out", str(out)]) == 0

    assert f"dil run {conf} --plan {out} runs exactly this plan" in capsys.readouterr().out
    assert len(json.loads(out.read_text())["plan"]["work_units"]) == 3


def test_a_plan_that_cannot_be_kept_is_exit_code_2(
    conf: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", conf, "--out", str(tmp_path / "missing" / "plan.json")]) == 2
    assert "--out" in capsys.readouterr().err


def test_a_plan_is_never_kept_over_a_file_that_is_no_plan(
    conf: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"

    assert main(["plan", conf, "--out", conf]) == 2
    assert Path(conf).read_text() == TEXT
    assert "is not a plan" in capsys.readouterr().err
    assert main(["plan", conf, "--out", str(out)]) == 0
    assert main(["plan", conf, "--out", str(out)]) == 0


def test_numbers_in_units_are_printed_as_they_are_written(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = json.dumps(
        [
            {"name": "d", "type": "datetime", "range": {"from": "2024-01-01", "to": "2024-01-02"}},
            {"name": "u", "type": "unit", "units": "UNITS"},
        ]
    ).replace('"UNITS"', '[{"id":1.10},{"id":1e5},{"id":-0},{"id":12345678901234567890123}]')

    assert main(["plan", conf, "--json", "-D", f"ms.watermark={marks}"]) == 0

    out = capsys.readouterr().out
    assert [text in out for text in ("1.10", "1e5", "-0", "12345678901234567890123")] == [True] * 4
    assert [unit["unit"]["id"] for unit in json.loads(out)["work_units"]][:2] == [1.1, 100000.0]


def test_a_full_explanation_is_there_though_nothing_was_skipped(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", conf, "--json", "--all", "-D", "ms.backfill=true"]) == 0
    assert json.loads(capsys.readouterr().out)["skips"] == []


@pytest.mark.parametrize("flags", [["--json"], ["--all"]])
def test_planning_loads_nothing_that_only_a_run_or_another_job_needs(
    conf: str, flags: list[str]
) -> None:
    script = (
        "import sys\n"
        "from dil.cli.main import main\n"
        f"assert main(['plan', {conf!r}, *{flags!r}]) == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    loaded = set(done.stderr.split())
    assert loaded & {"pyspark", "pyarrow", "requests", "rich", "yaml", "cryptography"} == set()
    assert loaded & {"pydantic", "jsonpath_ng", "isodate", "importlib.metadata"} == set()
    assert loaded & {"dil.publishing", "dil.extraction", "dil.state.store.committing"} == set()
    assert loaded & {"dil.config.locating", "dil.text.database_url", "dil.text.cron"} == set()
    assert loaded & {"dil.text.joda", "dil.text.java_regex"} == set()


def test_a_valid_job_file_is_called_valid(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", conf]) == 0
    assert capsys.readouterr().out.endswith("orders.conf: job orders is valid\n")


def test_validate_as_json_tells_all_problems_with_file_and_line(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["-D", "ms.work.unit.partition=dayly", "--json"]
    with Path(conf).open("a") as file:
        file.write("ms.grace.perod=P1D\n")

    assert main(["validate", conf, *flags]) == 2

    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is False
    found = {problem["property"]: problem for problem in answer["problems"]}
    assert found.keys() == {"ms.work.unit.partition", "ms.grace.perod"}
    assert found["ms.grace.perod"]["file"] == conf
    assert found["ms.grace.perod"]["line"] == len(TEXT.splitlines()) + 1
    assert "ms.grace.period" in found["ms.grace.perod"]["fix"]
    wrong = found["ms.work.unit.partition"]
    assert (wrong["code"], wrong["value"], wrong["line"]) == ("DIL-CONFIG", "dayly", None)
    assert wrong["file"] == "-D ms.work.unit.partition"
    assert wrong["message"] == 'is "dayly"'


def test_a_name_of_the_right_words_is_answered_with_the_property_in_a_file_and_by_d(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(conf).open("a") as file:
        file.write("ms.window.time.size=PT1H\n")

    assert main(["validate", conf, "-D", "ms.retry.max.attempts=3"]) == 2

    told = " ".join(capsys.readouterr().err.split())
    hint = 'Did you mean "ms.http.retry.max" or "ms.http.retry.max.seconds"?'
    assert f"-D ms.retry.max.attempts is no known property {hint}" in told
    assert 'ms.window.time.size is no known property Did you mean "ms.window.size"?' in told


def test_validate_as_json_shows_no_value_that_is_or_may_be_a_secret(
    conf: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "hunter2-canary")
    flags = [
        "source.conn.pasword=hunter2-canary",  # a warning
        "ms.authenticaton=hunter2-canary",
        "ms.authentication=hunter2-canary",
        'ms.parameters=[{"name":"a","value":"hunter2-canary"}',
        "ms.work.unit.partition=${env:FROM_OUTSIDE}",
        "ms.source.uri=ftp://user:hunter2-canary@shop.test/orders",
    ]
    arguments = [text for flag in flags for text in ("-D", flag)]

    assert main(["validate", conf, "--json", *arguments]) == 2

    out = capsys.readouterr().out
    assert "hunter2-canary" not in out
    values = {problem["property"]: problem["value"] for problem in json.loads(out)["problems"]}
    assert values["ms.work.unit.partition"] == "${env:FROM_OUTSIDE}"
    assert values["ms.authenticaton"] == values["ms.authentication"] == "***"


def test_validate_as_json_tells_warnings_and_what_is_only_so_apart(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = Path(conf).with_name("project.properties")
    shared.write_text("ms.encoding=UTF-8\n")

    assert main(["validate", conf, "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert (answer["job"], answer["valid"], answer["problems"]) == ("orders", True, [])
    plain, warning = answer["warnings"]
    assert plain["message"] == "holds a secret in plain text"
    assert (warning["property"], warning["line"]) == ("ms.encoding", 1)
    assert warning["value"] == "UTF-8"
    assert [notice["message"] for notice in answer["notices"]] == [
        f"inherits {shared}",
    ]


def test_an_unknown_property_is_a_notice_when_lenient(
    conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", conf, "--json", "--lenient", "-D", "ms.nonsense=1"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] is True
    assert "ms.nonsense" in {warning["property"] for warning in answer["warnings"]}


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["run"], ["state", "show"]])
def test_a_wrong_job_file_is_exit_code_2_for_every_command(
    command: list[str], conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, conf, "-D", "ms.work.unit.partition=dayly"]) == 2

    error = capsys.readouterr().err
    assert "ms.work.unit.partition" in error
    assert error.endswith("1 problem, nothing was done  [DIL-CONFIG]\n")


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["run"], ["state", "log"]])
def test_a_missing_job_file_is_exit_code_2(command: list[str], tmp_path: Path) -> None:
    assert main([*command, str(tmp_path / "missing.conf")]) == 2


@pytest.mark.parametrize("command", [["plan", "-v"], ["validate", "-v"], ["state", "show", "-v"]])
def test_no_secret_is_shown(
    command: list[str], conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command, conf])

    captured = capsys.readouterr()
    assert "hunter2-canary" not in captured.out + captured.err


@pytest.mark.parametrize("command", [["plan"], ["plan", "--json"], ["state", "show"]])
def test_commands_that_never_ask_the_source_need_no_secrets_and_repeat_no_notices(
    command: list[str], conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["-D", "source.conn.password=env:DIL_TEST_UNSET", "-D", "no.such.key=1"]

    assert main([*command, conf, *flags]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [["validate"], ["run"]])
def test_commands_that_vouch_for_a_run_need_its_secrets(
    command: list[str], conf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, conf, "-D", "source.conn.password=env:DIL_TEST_UNSET"]) == 2
    assert "DIL_TEST_UNSET" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        ("ms.timezon=UTC", "-D ms.timezon is no known property"),
        ("ms.ssl=x", "-D ms.ssl is no JSON object"),
        ("ms.timezone=Mars", '-D ms.timezone is "Mars", which is no known time zone'),
    ],
)
def test_a_flag_that_is_wrong_names_its_property_once(
    conf: str, capsys: pytest.CaptureFixture[str], definition: str, line: str
) -> None:
    assert main(["validate", conf, "-D", definition]) == 2
    assert capsys.readouterr().err.splitlines()[0] == line
