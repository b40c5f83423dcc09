"""Rows that the receiver refused, as lines that can be sent again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dil.errors import RefusedAnswer, SourceContractError, WriteError
from dil.model.destination import EgressSpec
from dil.model.secret import OpenedText
from dil.model.task import AnswerCount, AttemptId
from dil.storage import Folder, LocalFilesystem
from dil.writing.refused_rows import RefusedRows

UNFIT = RefusedAnswer(422, "Unprocessable", '{"error":"id hunter2 is unknown"}')


def kept(folder: Path, **spec: Any) -> RefusedRows:
    return RefusedRows(
        Folder(LocalFilesystem(), str(folder)),
        EgressSpec(keeps_refused=True, **spec),
        AttemptId("orders", "run-1", "[unit]", "abc", 2),
        lambda text: text.replace("hunter2", "***"),
    )


def lines(path: str) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def test_a_line_is_the_row_and_one_member_that_tells_why(tmp_path: Path) -> None:
    rows = kept(tmp_path)
    rows.keep({"id": 7, "name": "é"}, 3, "k7", UNFIT)
    (file,) = rows.finish()

    assert lines(file.path) == [
        {
            "id": 7,
            "name": "é",
            "_failed": {
                "status": 422,
                "reason": "Unprocessable",
                "answer": '{"error":"id *** is unknown"}',
                "request": 3,
                "idempotency_key": "k7",
                "work_unit": "[unit]",
                "run_id": "run-1",
                "attempt": 2,
            },
        }
    ]
    content = Path(file.path).read_bytes()
    assert (file.rows, file.bytes) == (1, len(content))
    assert file.sha256 == hashlib.sha256(content).hexdigest()


def test_numbers_stay_as_they_were(tmp_path: Path) -> None:
    rows = kept(tmp_path)
    rows.keep({"big": 12345678901234567890123, "sum": Decimal("1.10")}, 1, "", UNFIT)
    (file,) = rows.finish()
    assert Path(file.path).read_text().startswith('{"big":12345678901234567890123,"sum":1.10,')


def test_a_member_of_the_row_is_never_overwritten(tmp_path: Path) -> None:
    rows = kept(tmp_path)
    rows.keep({"_failed": "mine"}, 1, "", UNFIT)
    (file,) = rows.finish()
    (line,) = lines(file.path)
    assert (line["_failed"], line["__failed"]["status"]) == ("mine", 422)


def test_an_encrypted_text_is_kept_encrypted(tmp_path: Path) -> None:
    rows = kept(tmp_path)
    rows.keep({"card": OpenedText.of("4111", "ENC(abc)")}, 1, "", UNFIT)
    (file,) = rows.finish()
    (line,) = lines(file.path)
    assert line["card"] == "ENC(abc)"


def test_the_rows_of_a_refused_batch_are_kept_one_by_one(tmp_path: Path) -> None:
    rows = kept(tmp_path, batch_rows=2, batch_field="records")
    rows.keep({"records": [{"id": 1}, {"id": 2}]}, 1, "k", UNFIT)
    (file,) = rows.finish()
    assert [line["id"] for line in lines(file.path)] == [1, 2]
    assert (file.rows, rows.rows) == (2, 2)


def test_rows_are_counted_by_status(tmp_path: Path) -> None:
    rows = kept(tmp_path)
    for status in (422, 404, 422):
        rows.keep({"id": status}, 1, "", RefusedAnswer(status))
    rows.abort()
    assert rows.counts() == (AnswerCount(404, 1, is_kept=True), AnswerCount(422, 2, is_kept=True))


def test_without_refused_rows_there_is_no_file(tmp_path: Path) -> None:
    assert kept(tmp_path).finish() == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("most", [0, 2])
def test_more_refused_rows_than_allowed_fail_the_work_unit(tmp_path: Path, most: int) -> None:
    rows = kept(tmp_path, max_refused=most)
    for number in range(most):
        rows.keep({"id": number}, number, "", UNFIT)
    with pytest.raises(SourceContractError, match="422") as caught:
        rows.keep({"id": 9}, 9, "", UNFIT)
    rows.abort()
    assert "ms.egress.failed.max.rows" in caught.value.fix


def test_a_folder_that_cannot_be_written_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no folder")
    with pytest.raises(WriteError):
        kept(tmp_path / "a").keep({"id": 1}, 1, "", UNFIT)


def test_a_secret_at_the_cut_of_a_long_answer_is_masked_before_the_cut(tmp_path: Path) -> None:
    rows = kept(tmp_path)
    answer = RefusedAnswer(422, "Unprocessable", "x" * 996 + "hunter2")
    rows.keep({"id": 7}, 1, "k7", answer)
    (file,) = rows.finish()

    assert lines(file.path)[0]["_failed"]["answer"] == "x" * 996 + "***"
