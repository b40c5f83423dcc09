"""Rows that delete their key."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dil import config
from dil.publishing.deletes import are_deletes
from tests.jobs import write_job


@pytest.mark.parametrize(
    ("word", "operations"),
    [
        ("delete", ["DELETE", "Delete", "upsert", None]),
        ("SİL", ["SİL", "si̇l", "EKLE", None]),
        ("sil", ["SİL", "Sil", "sila", None]),
        ("ΔΙΑΓΡΑΦΉΣ", ["ΔΙΑΓΡΑΦΉΣ", "διαγραφής", "", None]),
        ("2", [2, 2, 1, None]),
        ("true", [True, True, False, None]),
    ],
)
def test_a_row_deletes_by_a_word_of_the_job_in_any_letter_case(
    word: str, operations: list[object], tmp_path: Path
) -> None:
    merging = {
        "ms__publish__mode": "merge",
        "extract__primary__key__fields": "unit,id",
        "ms__merge__op__field": "note",
        "ms__merge__op__deletes": word,
    }
    job = write_job(tmp_path, "http://unused", **merging)
    spec = config.load(job, environ={}).job.publishing.merge
    assert spec is not None
    batch = pa.RecordBatch.from_pydict({"note": operations})
    assert are_deletes(batch, spec).to_pylist() == [True, True, False, False]
    assert not any(are_deletes(batch.rename_columns(["other"]), spec).to_pylist())
