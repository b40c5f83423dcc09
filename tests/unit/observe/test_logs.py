"""One event per line, with its place, and without a secret."""

import base64
import io
import json
import logging
import re
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from dil.model.secret import Secret
from dil.observe import logs
from dil.observe.logs import bind, configure
from dil.observe.progress import RichProgress

LOG = logging.getLogger("dil.somewhere")
CANARY = "sw0rdf/sh+"
CANARY_FORMS = (CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode())


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    names = ("", "dil", "connectors", "py4j", "pyspark", "urllib3", "botocore", "paramiko")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    handlers = list(loggers[0].handlers)
    hook = threading.excepthook
    yield
    threading.excepthook = hook
    logging.captureWarnings(capture=False)
    loggers[0].handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def start(
    *, json_lines: bool = False, level: str = "INFO", secrets: tuple[str, ...] = ()
) -> io.StringIO:
    # Not pytest's: it would raise where ours must hold.
    logging.getLogger().handlers.clear()
    stream = io.StringIO()
    configure(
        level=level, json_lines=json_lines, stream=stream, secrets=[Secret(s) for s in secrets]
    )
    return stream


def test_a_text_line_names_time_level_job_unit_and_attempt() -> None:
    stream = start()

    with bind(job="orders", run_id="r1"), bind(unit="[watermark.x.1]", attempt=2):
        LOG.info("read %d rows", 7)

    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO "
        r"orders unit=\[watermark\.x\.1\] attempt=2: read 7 rows\n",
        stream.getvalue(),
    )


def test_a_json_line_has_the_documented_members() -> None:
    stream = start(json_lines=True)

    with bind(job="orders", run_id="r1", unit="u", attempt=1):
        LOG.warning("slow", extra={"event": "source.slow"})

    line = json.loads(stream.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "WARNING",
        "run_id": "r1",
        "job": "orders",
        "unit": "u",
        "attempt": 1,
        "event": "source.slow",
        "msg": "slow",
        "logger": "dil.somewhere",
    }


def test_fields_end_with_their_block() -> None:
    stream = start(json_lines=True)

    with bind(job="orders"):
        pass
    LOG.info("outside")

    assert json.loads(stream.getvalue())["job"] is None


@pytest.mark.parametrize("json_lines", [False, True])
@pytest.mark.parametrize("form", CANARY_FORMS)
def test_no_form_of_a_secret_reaches_message_arguments_place_or_traceback(
    form: str, *, json_lines: bool
) -> None:
    stream = start(json_lines=json_lines, secrets=(CANARY,))

    with bind(job="orders", unit=f'{{"id":"{form}"}}'):
        LOG.info(f"message {form}")  # noqa: G004 - a plug-in may do so
        LOG.info("argument %s and %r", form, {"k": form})
        try:
            try:
                int(f"inner {form}")
            except ValueError as error:
                raise RuntimeError(f"outer {form}") from error
        except RuntimeError:
            LOG.exception("failed")

    text = stream.getvalue()
    assert "inner ***" in text
    assert "outer ***" in text
    assert not any(canary in text for canary in CANARY_FORMS)


def test_a_traceback_that_another_handler_formatted_first_is_masked_too() -> None:
    stream = start(secrets=(CANARY,))
    record = LOG.makeRecord(LOG.name, logging.ERROR, "f", 1, "m", (), None)
    record.exc_text = f"ValueError: {CANARY}"

    logging.getLogger().handle(record)

    assert CANARY not in stream.getvalue()


@pytest.mark.parametrize("json_lines", [False, True])
def test_an_event_is_one_line_whatever_the_source_sent(*, json_lines: bool) -> None:
    stream = start(json_lines=json_lines)

    LOG.info("answer: %s", "a\nERROR forged\r\x1b[2J\u2028")

    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


def test_a_message_that_cannot_be_formatted_costs_one_line_and_no_secret(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = start(secrets=(CANARY,))

    LOG.info("two %s %s", CANARY)  # noqa: PLE1206 - the defect of a plug-in

    assert "cannot format log message" in stream.getvalue()
    assert CANARY not in stream.getvalue() + capsys.readouterr().err


@pytest.mark.parametrize(("level", "lines"), [("WARNING", 5), ("DEBUG", 2_001)])
def test_a_warning_that_repeats_itself_is_said_with_its_count(level: str, lines: int) -> None:
    stream = start(level=level)
    log = logging.getLogger("connectors.http.session")
    for number in range(1_000):
        with bind(unit=f"u{number}"):
            log.warning("connection refused; again in %.1f s (%d of 5)", number / 7, number % 5)
            if level == "DEBUG":
                log.warning("attempt %d failed", number)
    log.warning("another host: connection refused")

    found = stream.getvalue().splitlines()
    assert len(found) == lines
    if level == "WARNING":
        counts = [line.partition("(seen ")[2].split(" ")[0] for line in found]
        assert counts == ["", "10", "100", "1,000", ""]
        assert "u0" in found[0]


@pytest.mark.parametrize(("level", "traces"), [("INFO", 1), ("DEBUG", 30)])
def test_a_defect_that_every_work_unit_meets_is_traced_once(level: str, traces: int) -> None:
    stream = start(level=level)
    for number in range(30):
        with bind(unit=f"u{number}"):
            logging.getLogger("dil.task.attempt").error("unexpected", exc_info=KeyError(number))

    found = stream.getvalue()
    assert found.count("KeyError: ") == traces
    assert ("(seen 10 times here" in found) == (level == "INFO")


def test_errors_and_notes_are_said_each_time() -> None:
    stream = start(level="INFO")
    for _ in range(5):
        logging.getLogger("dil.task").error("broken")
        logging.getLogger("dil.task").info("done")
    assert len(stream.getvalue().splitlines()) == 10


def test_configuring_again_replaces_what_was_before() -> None:
    first = start()
    second = start()

    LOG.info("once")

    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_debug_is_for_our_loggers_and_not_for_libraries() -> None:
    stream = start(level="debug")

    LOG.debug("ours")
    logging.getLogger("connectors.http").debug("plug-in")
    logging.getLogger("some.library").debug("theirs")
    logging.getLogger("py4j.clientserver").error("chatter")

    assert [line.rsplit(" ", 1)[1] for line in stream.getvalue().splitlines()] == [
        "ours",
        "plug-in",
    ]


@pytest.mark.parametrize(("level", "is_shown"), [("INFO", False), ("DEBUG", True)])
def test_what_py4j_logs_on_the_root_logger_is_for_debugging_alone(
    *, level: str, is_shown: bool
) -> None:
    stream = start(level=level)
    place = "/somewhere/lib/py4j/java_gateway.py"
    text = "KeyboardInterrupt while sending command."

    logging.getLogger().handle(
        logging.LogRecord("root", logging.ERROR, place, 1070, text, None, None)
    )

    assert (text in stream.getvalue()) is is_shown


@pytest.mark.parametrize(("level", "is_shown"), [("INFO", False), ("DEBUG", True)])
def test_what_libraries_say_is_for_debugging_alone_unless_it_is_an_error(
    *, level: str, is_shown: bool
) -> None:
    stream = start(level=level)
    place = f"{sysconfig.get_paths()['purelib']}/pyiceberg/table/__init__.py"

    def say(name: str, severity: int, text: str) -> None:
        logging.getLogger(name).handle(
            logging.LogRecord(name, severity, place, 7, text, None, None)
        )

    say("pyiceberg.table", logging.WARNING, "a library's warning")
    say("pyiceberg.table", logging.ERROR, "a library's error")
    say("dil.publishing", logging.WARNING, "ours, installed")
    warned = f"{place}:7: UserWarning: of Python"
    logging.getLogger("py.warnings").warning("%s", warned)
    logging.getLogger("acme_billing").info("a job's own class")

    shown = stream.getvalue()
    for text in ("a library's error", "ours, installed", "a job's own class"):
        assert text in shown
    for text in ("a library's warning", "of Python"):
        assert (text in shown) is is_shown


def test_packages_that_offer_plug_ins_speak_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = start()
    monkeypatch.setattr(logs, "_plugin_packages", lambda: frozenset({"acme"}))
    place = f"{sysconfig.get_paths()['purelib']}/acme/billing.py"
    for name in ("acme.billing", "other.billing"):
        logging.getLogger(name).handle(
            logging.LogRecord(name, logging.WARNING, place, 7, f"from {name}", None, None)
        )
    assert "from acme.billing" in stream.getvalue()
    assert "from other.billing" not in stream.getvalue()


def test_warnings_of_libraries_go_to_the_log() -> None:
    stream = start()

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old api", UserWarning, stacklevel=1)

    assert "old api" in stream.getvalue()


def test_a_closed_stream_does_not_end_the_run() -> None:
    stream = start()
    stream.close()

    LOG.info("nobody listens")


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        start(level="loud")


def test_an_error_that_ends_a_thread_is_logged_without_its_secrets() -> None:
    threading.excepthook = threading.__excepthook__
    stream = start(secrets=(CANARY,))
    thread = threading.Thread(target=lambda: int(CANARY), name="heartbeat")

    thread.start()
    thread.join()

    assert "thread heartbeat ended: ValueError" in stream.getvalue()
    assert CANARY not in stream.getvalue()


def test_log_lines_stay_above_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    configure(level="INFO", json_lines=False, stream=sys.stderr)
    bar = RichProgress(sys.stderr)

    bar.start(2)
    during = sys.stderr
    LOG.info("in between")
    bar.finish()

    assert during is not terminal, "the bar writes the line, so that it can draw itself anew below"
    assert sys.stderr is terminal
    assert "in between" in terminal.getvalue()
