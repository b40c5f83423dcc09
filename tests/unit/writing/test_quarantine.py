"""Rows that were put aside, as JSON lines in an attempt's folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dil.errors import ConversionError, WriteError
from dil.model.schema import QuarantineSpec
from dil.model.task import AttemptId, DiscardCount, RejectCount
from dil.spi.rejects import RejectedRow
from dil.storage import Folder, LocalFilesystem
from dil.writing.quarantine import QuarantineWriter

BATCH = pa.RecordBatch.from_pylist([{"id": number, "name": f"n{number}"} for number in range(4)])


def writer(folder: Path, *, target_bytes: int = 1 << 20, **spec: Any) -> QuarantineWriter:
    return QuarantineWriter(
        Folder(LocalFilesystem(), str(folder)),
        QuarantineSpec(**spec),
        AttemptId("orders", "run-1", "[unit]", "abc", 2),
        target_bytes,
    )


def bad(*rows: int, column: str = "id") -> list[RejectedRow]:
    return [RejectedRow(row, column, f"no good, it looks like {row}", "no good") for row in rows]


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_line_tells_the_row_why_and_where_it_comes_from(tmp_path: Path) -> None:
    kept = writer(tmp_path)
    kept.begin(3, 4)
    kept.add(BATCH, bad(1, 3))
    (file,) = kept.finish()

    assert lines(file.path)[1] == {
        "row": {"id": 3, "name": "n3"},
        "reason": "no good, it looks like 3",
        "column": "id",
        "work_unit": "[unit]",
        "run_id": "run-1",
        "attempt": 2,
        "page": 3,
        "row_number": 4,
    }
    content = Path(file.path).read_bytes()
    assert (file.rows, file.bytes) == (2, len(content))
    assert file.sha256 == hashlib.sha256(content).hexdigest()


def test_row_numbers_go_on_over_batches_of_a_page_and_over_steps_that_dropped_rows(
    tmp_path: Path,
) -> None:
    kept = writer(tmp_path)
    kept.begin(1, 4)
    kept.add(BATCH, bad(1))
    kept.add(BATCH.slice(0, 3), bad(1))  # a later step, which got rows 1, 3 and 4
    kept.begin(1, 4)
    kept.add(BATCH, bad(0))
    kept.begin(2, 4)
    kept.add(BATCH, bad(0))

    (file,) = kept.finish()
    assert [(line["page"], line["row_number"]) for line in lines(file.path)] == [
        (1, 2),
        (1, 3),
        (1, 5),
        (2, 1),
    ]


def test_rows_that_a_converter_made_have_no_number(tmp_path: Path) -> None:
    kept = writer(tmp_path)
    kept.begin(1, 100)
    kept.add(BATCH, bad(0))
    kept.begin(0, 0)
    kept.add(BATCH, bad(0))
    (file,) = kept.finish()
    assert [line["row_number"] for line in lines(file.path)] == [None, None]


def test_values_are_exact_and_times_are_iso_text(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([12345678901234567890123], pa.decimal128(38, 0)),
            pa.array([1], pa.timestamp("ns", tz="UTC")),
            pa.array([float("nan")]),
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        ],
        names=["long", "at", "nan", "map"],
    )
    kept = writer(tmp_path)
    kept.begin(1, 1)
    kept.add(batch, bad(0))
    (file,) = kept.finish()
    text = Path(file.path).read_text()
    assert '"long":12345678901234567890123' in text
    row = lines(file.path)[0]["row"]
    assert (row["at"], row["nan"], row["map"]) == ("1970-01-01T00:00:00Z", None, {"k": 1})


def test_a_file_ends_when_it_is_large_enough(tmp_path: Path) -> None:
    kept = writer(tmp_path, target_bytes=100)
    for _ in range(3):
        kept.begin(1, 4)
        kept.add(BATCH, bad(0))
    files = kept.finish()
    assert [Path(file.path).name for file in files] == [f"quarantine-{n}.json" for n in range(3)]


def test_no_file_is_made_without_a_row_or_when_rows_are_not_kept(tmp_path: Path) -> None:
    empty, off = writer(tmp_path), writer(tmp_path, enabled=False)
    off.begin(1, 4)
    off.add(BATCH, bad(0, 1))
    assert (empty.finish(), off.finish(), list(tmp_path.iterdir())) == ((), (), [])
    assert (off.rows, off.reasons()) == (2, (RejectCount("id", "no good", 2),))


def test_one_row_more_than_allowed_fails_and_names_the_row(tmp_path: Path) -> None:
    kept = writer(tmp_path, max_rows=2)
    kept.begin(7, 4)
    kept.add(BATCH, bad(0))
    with pytest.raises(ConversionError) as caught:
        kept.add(BATCH.slice(1), bad(0, 1))
    kept.abort()
    assert 'column "id", row 3 of page 7: no good' in caught.value.message
    assert "ms.quarantine.max.rows" in caught.value.fix


def test_zero_allowed_rows_fail_at_the_first(tmp_path: Path) -> None:
    kept = writer(tmp_path, max_rows=0)
    kept.begin(1, 4)
    with pytest.raises(ConversionError, match="row 1 of page 1"):
        kept.add(BATCH, bad(0))


def test_reasons_are_counted_without_the_shape_of_the_value(tmp_path: Path) -> None:
    kept = writer(tmp_path)
    kept.begin(1, 4)
    kept.add(BATCH, [*bad(0, 1), *bad(2, column="name")])
    kept.discard("new", 5)
    kept.discard("new", 1)
    kept.finish()
    assert kept.reasons() == (RejectCount("id", "no good", 2), RejectCount("name", "no good", 1))
    assert kept.discarded() == (DiscardCount("new", 6),)


def test_a_folder_that_cannot_be_written_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = writer(tmp_path / "file" / "attempt")
    kept.begin(1, 4)
    with pytest.raises(WriteError):
        kept.add(BATCH, bad(0))


def test_an_aborted_writer_leaves_its_file_to_the_folder_and_can_be_aborted_again(
    tmp_path: Path,
) -> None:
    kept = writer(tmp_path)
    kept.begin(1, 4)
    kept.add(BATCH, bad(0))
    kept.abort()
    kept.abort()
    assert kept.finish() == ()
