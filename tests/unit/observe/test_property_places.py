"""Advice names the line of the job file that sets the property to look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.cli.main import main
from dil.errors import Origin
from dil.observe.property_places import located_advice, with_places
from dil.run.kept_report import kept_report
from tests.servers.http_server import Fault, HttpServer
from tests.stories import Story, day

KNOWN = {"ms.source.uri": Origin("a.conf", 3), "ms.ssl": Origin("a.conf", 7)}


@pytest.mark.parametrize(
    ("text", "located"),
    [
        ("Check ms.source.uri.", "Check ms.source.uri (a.conf:3)."),
        ("ms.ssl, ms.ssl and ms.ssl.other", "ms.ssl (a.conf:7), ms.ssl and ms.ssl.other"),
        ("To wait longer raise ms.http.retry.max.", "To wait longer raise ms.http.retry.max."),
        (
            'Set ms.ssl={"a": "b"}, or ms.source.uri=X.',
            'Set ms.ssl={"a": "b"} (a.conf:7), or ms.source.uri=X (a.conf:3).',
        ),
        ("See ms.source.uri (a.conf:3)", "See ms.source.uri (a.conf:3)"),
        ("dil run J -D ms.ssl={} sets ms.ssl", "dil run J -D ms.ssl={} sets ms.ssl (a.conf:7)"),
        ("no property", "no property"),
    ],
)
def test_properties_that_the_job_sets_have_their_place_once(text: str, located: str) -> None:
    assert with_places(text, KNOWN.get) == located


def test_a_failure_of_the_source_always_has_a_place() -> None:
    where = "Look there. The request was made as ms.source.uri says (a.conf:3)."
    assert located_advice("DIL-SRC-TRANSIENT", "503", "Look there.", KNOWN.get) == where
    assert located_advice("DIL-WRITE", "disk full", "Look there.", KNOWN.get) == "Look there."


def test_a_source_that_fails_shows_its_answer_and_the_line_that_asks_it(
    tmp_path: Path, source: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    source.faults.append(Fault("status", status=503))
    story = Story(tmp_path, source)
    report = story.run(day(1))
    lines = (tmp_path / "orders.conf").read_text().splitlines()
    [line] = [n for n, text in enumerate(lines, start=1) if text.startswith("ms.http.retry.max=")]
    place = f"{tmp_path / 'orders.conf'}:{line}"
    for failure in report.failures:
        assert failure.code == "DIL-SRC-TRANSIENT"
        assert "503" in failure.error
        assert 'the answer begins: {"error":"fault"}' in failure.error
        assert "0 retries" not in failure.error
        assert place in failure.fix
    with story.store() as store:
        kept = kept_report(store, "run-1")
    assert kept is not None
    assert place in str(kept.failures)
    assert main(["check", str(tmp_path / "orders.conf"), "--now", "2020-01-02T00:00:00Z"]) == 1
    assert place in capsys.readouterr().err


def test_advice_without_a_full_stop_does_not_run_into_the_place() -> None:
    located = located_advice("DIL-SRC-CONTRACT", "x", 'Write a={"b": "c"}', KNOWN.get)
    assert located == 'Write a={"b": "c"}. The request was made as ms.source.uri says (a.conf:3).'
