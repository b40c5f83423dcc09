"""The audit copy: a line before each request, a line after it, nothing lost and no secret told."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dil.errors import WriteError
from dil.model.secret import OpenedText, Secret
from dil.model.task import AttemptId
from dil.observe.redaction import redactor
from dil.spi.audit import AuditedRequest
from dil.writing.audit import AuditPlace, AuditWriter

REQUEST = AuditedRequest(
    "POST",
    "https://r.test/rows?key=s3cr3t-key&day=1",
    {"validate": False, "token": "s3cr3t-key"},
    {
        "id": 7,
        "name": "a s3cr3t-key",
        "tags": ["s3cr3t-key"],
        "sum": 1.50,
        "card": OpenedText.of("4111", "ENC(abc)"),
    },
)


def ticking() -> Callable[[], float]:
    ticks = iter(range(1000))
    return lambda: next(ticks) / 4


def writer(folder: Path, *, is_required: bool = True, attempt: int = 1) -> AuditWriter:
    place = AuditPlace(
        str(folder), is_required, lambda: 1_700_000_000_000, ticking(),
        redactor([Secret("s3cr3t-key")]),
    )  # fmt: skip
    return AuditWriter(place, AttemptId("orders", "run-1", "[unit]", "abc", attempt))


def lines(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_request_is_on_disk_before_it_may_be_sent(tmp_path: Path) -> None:
    audit = writer(tmp_path)

    assert audit.sent(REQUEST) == 1

    (line,) = lines(tmp_path)
    assert line == {
        "event": "request",
        "job": "orders",
        "run_id": "run-1",
        "signature": "[unit]",
        "attempt": 1,
        "sequence": 1,
        "time": 1_700_000_000_000,
        "method": "POST",
        "uri": "https://r.test/rows?key=***&day=1",
        "parameters": {"validate": False, "token": "***"},
        "payload": {"id": 7, "name": "a ***", "tags": ["***"], "sum": 1.5, "card": "ENC(abc)"},
    }


def test_each_request_is_durable_before_it_may_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable: list[int] = []
    sync = os.fsync

    def synced(handle: int) -> None:
        durable.append(os.fstat(handle).st_size)
        sync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    audit = writer(tmp_path)
    for _ in range(2):
        audit.sent(REQUEST)
        (file,) = tmp_path.iterdir()
        assert durable[-1] == file.stat().st_size


def test_only_the_owner_reads_the_audit(tmp_path: Path) -> None:
    writer(tmp_path / "audit").sent(REQUEST)

    (file,) = (tmp_path / "audit").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.parent, file)] == [0o700, 0o600]


def test_a_line_that_the_system_takes_in_pieces_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    writer(tmp_path).sent(REQUEST)

    assert [line["sequence"] for line in lines(tmp_path)] == [1]


def test_a_store_that_cannot_append_has_the_last_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dil.writing.audit.is_local", lambda _: False)
    audit = writer(tmp_path)
    for status in (201, 202):
        audit.answered(audit.sent(REQUEST), status)
    audit.close()

    written = "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    found = [json.loads(line) for line in written.splitlines()]
    assert [line.get("status") for line in found] == [None, 201, None, 202]


def test_the_answer_tells_status_and_time_and_belongs_to_its_request(tmp_path: Path) -> None:
    audit = writer(tmp_path)
    audit.answered(audit.sent(REQUEST), 201)
    audit.answered(audit.sent(AuditedRequest("GET", "https://r.test/")), 0, "reset by s3cr3t-key")
    audit.close()

    answers = [line for line in lines(tmp_path) if line["event"] == "answer"]
    assert [(a["sequence"], a["status"], a["milliseconds"], a["error"]) for a in answers] == [
        (1, 201, 250, None),
        (2, None, 250, "reset by ***"),
    ]


def test_each_attempt_has_a_file_of_its_own_and_none_without_requests(tmp_path: Path) -> None:
    for attempt in (1, 2):
        audit = writer(tmp_path, attempt=attempt)
        audit.sent(REQUEST)
        audit.close()
    writer(tmp_path, attempt=3).close()

    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name.split("-")[4] for name in names] == ["1", "2"]
    assert all(name.startswith("audit-run-1-abc-") for name in names)


def test_what_cannot_be_recorded_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("no folder")
    with pytest.raises(WriteError, match="the audit cannot be written") as caught:
        writer(tmp_path / "audit").sent(REQUEST)
    assert "ms.audit.required" in caught.value.fix


def test_where_the_audit_is_no_must_its_failure_is_told_and_the_request_goes_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "audit").write_text("no folder")
    audit = writer(tmp_path / "audit", is_required=False)

    audit.answered(audit.sent(REQUEST), 200)
    audit.close()

    assert [note for note in audit.notes if "ms.audit.required" in note]


def test_a_whole_audit_has_nothing_to_tell(tmp_path: Path) -> None:
    audit = writer(tmp_path)
    audit.sent(REQUEST)
    audit.close()
    assert audit.notes == ()
