"""``dil run``: exit codes, one report on every exit, nothing secret."""

import json
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dil import errors
from dil.cli.main import main
from dil.errors import (
    AuthenticationError,
    CommitUnknownError,
    ConfigError,
    LeaseHeldError,
    PlanningError,
    PluginError,
    Problem,
    RunInterruptedError,
    StateError,
)
from dil.model.report import ReportedFailure, RunStatus
from dil.model.task import TaskLogging

if TYPE_CHECKING:
    from conftest import Loads, Runs

SECRET = "s3cret/canary+"
CONTRACT = {
    "job", "run_id", "status", "work_units", "rows", "bytes", "files", "failures", "seconds"
}  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Return the one JSON document on standard output."""
    report: dict[str, object] = json.loads(capsys.readouterr().out)
    assert report.keys() >= CONTRACT
    return report


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (RunStatus.SUCCESS, 0),
        (RunStatus.NOTHING_DUE, 0),
        (RunStatus.FAILED, 1),
        (RunStatus.PARTIAL, 4),
    ],
)
def test_the_exit_code_follows_the_status(
    status: RunStatus, code: int, runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.report = replace(runs.report, status=status)

    assert main(["run", "orders.conf", "--json"]) == code
    assert printed(capsys)["status"] == status.value


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (ConfigError([Problem(None, "ms.x", "is wrong")]), "DIL-CONFIG", 2),
        (PluginError([Problem(None, "ms.x", "is wrong")]), "DIL-PLUGIN-CLASS", 2),
        (LeaseHeldError("held by run r0"), "DIL-LEASE", 3),
        (PlanningError("contradiction"), "DIL-PLAN", 1),
        (StateError("damaged"), "DIL-STATE", 1),
        (CommitUnknownError("perhaps"), "DIL-COMMIT-UNKNOWN", 1),
        (AuthenticationError("refused"), "DIL-SRC-AUTH", 1),
        (RunInterruptedError("stopped", "", 143), "DIL-INTERRUPTED", 143),
        (KeyboardInterrupt(), "DIL-INTERRUPTED", 130),
        (ZeroDivisionError("oh"), "DIL-INTERNAL", 1),
        (SystemExit(0), "DIL-INTERNAL", 1),
    ],
)
def test_every_error_ends_with_its_exit_code_and_one_report(
    error: BaseException,
    code: str,
    exit_code: int,
    runs: "Runs",
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs.raises(error)

    assert main(["run", "orders.conf", "--json"]) == exit_code

    report = printed(capsys)
    assert report["job"] == "orders"
    assert report["status"] == "failed"
    assert report["work_units"] == {
        "planned": 0, "succeeded": 0, "failed": 0, "adopted": 0, "not_started": 0,
    }  # fmt: skip
    failure = report["failures"][0]  # type: ignore[index]
    assert (failure["signature"], failure["code"]) == (None, code)


def test_every_public_error_class_has_an_exit_code_of_the_contract() -> None:
    from dil.run.exit_codes import exit_code

    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert len(classes) > 15
    for kind in classes:
        error = kind([]) if issubclass(kind, ConfigError) else kind("x")
        assert exit_code(error) in {1, 2, 3, 130}


def test_each_problem_of_a_job_file_is_a_failure_of_its_own(
    loads: "Loads", capsys: pytest.CaptureFixture[str]
) -> None:
    loads.error = ConfigError([Problem(None, "ms.a", "is wrong"), Problem(None, "ms.b", "too")])

    assert main(["run", "folder/orders.conf", "--json"]) == 2

    report = printed(capsys)
    assert report["job"] == "orders"
    assert [one["error"] for one in report["failures"]] == [  # type: ignore[attr-defined]
        "ms.a is wrong",
        "ms.b too",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--now", "2024-03-05"],
        ["--now", "yesterday"],
        ["-D", "no-equals-sign"],
        ["--report", "no/such/folder/report.json"],
        ["--wait-lease", "-1"],
        ["--no-such-option"],
    ],
)
def test_a_wrong_argument_is_exit_code_2_with_a_report(
    arguments: list[str], runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "orders.conf", "--json", *arguments]) == 2

    assert printed(capsys)["failures"][0]["code"] == "DIL-CONFIG"  # type: ignore[index]
    assert runs.options is None


def test_the_flags_reach_the_run(runs: "Runs", loads: "Loads") -> None:
    flags = "--now 2024-03-05T00:00:00-08:00 -D a=b=c -D k=1 -D k=2 --wait-lease 1.5"

    code = main(["run", "orders.conf", *flags.split(), "--accept-new-signatures", "--lenient"])

    assert code == 0
    assert runs.options is not None
    assert runs.options.now_ms == 1709625600000
    assert runs.options.wait_lease_s == 1.5
    assert runs.options.accept_new_signatures
    assert loads.overrides == {"a": "b=c", "k": "2"}
    assert loads.lenient


def test_without_now_the_real_clock_decides(runs: "Runs") -> None:
    assert main(["run", "orders.conf"]) == 0

    assert runs.options is not None
    assert abs(runs.options.now_ms - runs.options.clock()) < 60_000


def test_the_report_file_holds_what_json_prints(
    runs: "Runs", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.json"

    assert main(["run", "orders.conf", "--json", "--report", str(target)]) == 0

    assert json.loads(target.read_text()) == printed(capsys)


def test_the_report_file_is_written_for_a_run_that_failed_too(runs: "Runs", tmp_path: Path) -> None:
    runs.raises(LeaseHeldError("held by run r0"))
    target = tmp_path / "report.json"

    assert main(["run", "orders.conf", "--report", str(target)]) == 3

    assert json.loads(target.read_text())["failures"][0]["code"] == "DIL-LEASE"


def test_a_held_lease_is_told_with_the_flag_that_waits_and_how_long_it_was_waited_in_vain(
    runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.raises(LeaseHeldError("held by run r0", "Wait for it to end."))

    assert main(["run", "orders.conf"]) == 3
    told = capsys.readouterr().err
    assert "held by run r0  [DIL-LEASE]" in told
    assert "Wait for it to end. Or wait in line: --wait-lease SECONDS." in told

    assert main(["run", "orders.conf", "--wait-lease", "2.5"]) == 3
    told = capsys.readouterr().err
    assert "held by run r0; waited 2.5 s for it to end" in told
    assert "--wait-lease" not in told


def test_people_get_the_summary_on_stdout(runs: "Runs", capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "orders.conf"]) == 0

    assert capsys.readouterr().out == (
        "orders  SUCCESS in 1.2 s  run r1\n"
        "  work units  1 planned, 1 succeeded, 0 failed\n"
        "  published   7 rows in 1 file, 70 B\n"
        "  where       file:///out/orders\n"
    )


def test_an_error_is_told_on_stderr_with_what_to_do(
    runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.raises(StateError("state of orders is damaged", "Restore the copy."))

    assert main(["run", "orders.conf"]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("state of orders is damaged  [DIL-STATE]\n    Restore the copy.\n")


@pytest.mark.parametrize("verbose", [False, True])
def test_an_unexpected_error_is_one_line_and_a_traceback_only_on_demand(
    *, verbose: bool, runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.raises(ZeroDivisionError("first\nsecond"))

    assert main(["run", "orders.conf", *(["-v"] if verbose else [])]) == 1

    error = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: first second  [DIL-INTERNAL]" in error
    assert ("Traceback" in error) is verbose


@pytest.mark.parametrize("flags", [[], ["--json"], ["-v"], ["-v", "--log-format", "json"]])
def test_no_secret_of_the_job_is_printed_logged_or_kept(
    flags: list[str], runs: "Runs", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        logging.getLogger("connectors.x").warning("login with %s", SECRET)
        raise ValueError(f"bad password {SECRET}")

    runs.act = act
    target = tmp_path / "report.json"

    assert main(["run", "orders.conf", *flags, "--report", str(target)]) == 1

    captured = capfd.readouterr()
    assert "login with ***" in captured.err
    everything = captured.out + captured.err + target.read_text()
    assert "bad password ***" in everything
    assert SECRET not in everything
    assert json.dumps(SECRET) not in everything


def test_failures_of_work_units_are_masked_too(
    runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.report = replace(
        runs.report, failures=(ReportedFailure("[s]", "DIL-SRC", f"GET ?k={SECRET}"),)
    )

    main(["run", "orders.conf", "--json"])

    assert printed(capsys)["failures"][0]["error"] == "GET ?k=***"  # type: ignore[index]


def test_what_others_print_does_not_spoil_the_report(
    runs: "Runs", capfd: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        sys.stdout.write("a plug-in talks\n")
        os.system("echo a child process talks")

    runs.act = act

    assert main(["run", "orders.conf", "--json"]) == 0

    captured = capfd.readouterr()
    assert json.loads(captured.out)["rows"] == 7
    assert "a plug-in talks" in captured.err
    assert "a child process talks" in captured.err


def test_notices_about_the_job_file_are_logged(
    runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    main(["run", "orders.conf"])

    assert "WARNING orders.conf:3: ms.timezone is not set. Set it.\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "place", ["/proc/x.json", "/nowhere/x.json", "."], ids=["refusing", "missing", "a folder"]
)
def test_a_report_without_a_place_is_found_out_before_the_run(
    place: str, runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "orders.conf", "--report", place, "--json"]) == 2

    assert runs.options is None
    assert printed(capsys)["failures"][0]["code"] == "DIL-CONFIG"  # type: ignore[index]


def test_looking_for_the_reports_place_leaves_nothing_behind(runs: "Runs", tmp_path: Path) -> None:
    runs.raises(KeyboardInterrupt())
    (tmp_path / "report.json").write_text("old")

    main(["run", "orders.conf", "--report", str(tmp_path / "report.json")])

    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.usefixtures("sigint_is_heeded")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_run_cleanly_with_a_report(
    number: signal.Signals, code: int, runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.act = lambda: signal.raise_signal(number)
    before = signal.getsignal(number)

    assert main(["run", "orders.conf", "--json"]) == code

    assert printed(capsys)["failures"][0]["code"] == "DIL-INTERRUPTED"  # type: ignore[index]
    assert signal.getsignal(number) is before


def test_one_run_id_names_the_run_in_options_log_and_report(
    runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        logging.getLogger("dil.run.job_run").warning("about to fail")
        raise StateError("damaged")

    runs.act = act

    assert main(["run", "orders.conf", "--json", "--log-format", "json"]) == 1
    out, err = capsys.readouterr()
    assert runs.options is not None
    run_id = runs.options.run_id
    assert run_id
    assert json.loads(out)["run_id"] == run_id
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    ours = [line for line in lines if line["msg"] == "about to fail"]
    assert [(line["run_id"], line["job"]) for line in ours] == [(run_id, "orders")]


def test_the_report_of_a_wrong_job_file_has_the_jobs_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "file.conf"
    conf.write_text("job.name=orders of ${who}\nms.nonsense=1\n")

    assert main(["run", str(conf), "-D", "who=us", "--json"]) == 2
    assert printed(capsys)["job"] == "orders of us"


def test_advice_of_an_error_is_a_member_of_its_own(
    runs: "Runs", capsys: pytest.CaptureFixture[str]
) -> None:
    runs.raises(StateError("damaged", "Restore the copy."))

    main(["run", "orders.conf", "--json"])

    assert printed(capsys)["failures"] == [
        {"signature": None, "code": "DIL-STATE", "error": "damaged", "fix": "Restore the copy."}
    ]


def test_a_run_that_never_began_has_no_id(
    loads: "Loads", capsys: pytest.CaptureFixture[str]
) -> None:
    loads.error = ConfigError([Problem(None, "ms.x", "is wrong")])
    assert main(["run", "orders.conf", "--json"]) == 2
    assert printed(capsys)["run_id"] == ""


@pytest.mark.parametrize(
    ("flags", "level", "is_json"),
    [
        ([], "WARNING", False),
        (["-v"], "DEBUG", False),
        (["--log-format", "json"], "WARNING", True),
        (["--show-request"], "INFO", False),
        (["--show-request", "-v"], "DEBUG", False),
    ],
)
def test_tasks_log_as_the_command_line_asks(
    runs: "Runs", flags: list[str], level: str, is_json: bool
) -> None:
    assert main(["run", "orders.conf", *flags]) == 0
    assert runs.options is not None
    assert runs.options.task_logging == TaskLogging(level, is_json, "--show-request" in flags)


def test_a_plan_file_that_is_missing_or_no_plan_ends_before_the_run(
    runs: "Runs", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"

    assert main(["run", "orders.conf", "--plan", str(path)]) == 2
    assert "dil plan JOB.conf --out FILE" in capsys.readouterr().err
    path.write_text("{}")
    assert main(["run", "orders.conf", "--plan", str(path)]) == 2
    assert "is no plan" in capsys.readouterr().err
    assert runs.options is None


def test_a_plan_file_has_its_own_now(
    runs: "Runs", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--plan", str(tmp_path / "plan.json"), "--now", "2024-03-05T00:00:00Z"]

    assert main(["run", "orders.conf", *flags]) == 2
    assert "has a now of its own" in capsys.readouterr().err
