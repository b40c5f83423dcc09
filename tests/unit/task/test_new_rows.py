"""The meter of one attempt: what it compares with, and that it never fails a work unit."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil import config
from dil.eventtime import new_row_lateness
from dil.model.event_tally import MeterContext, PublishedRows, UnitLateness
from dil.model.job import Job
from dil.task import new_rows
from dil.task.new_rows import NewRows

H = 1_700_000_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("note", pa.string())])
KNOWN = "id: int64\nat: int64\nnote: string"


def job_of(folder: Path, **changes: str) -> Job:
    dates = [{"name": "d", "type": "datetime", "range": {"from": "2024-01-01", "to": "P0D"}}]
    given = {
        "job.name": "rows",
        "source.class": "hdfs",
        "ms.source.uri": str(folder / "in"),
        "ms.extractor.class": "parquet",
        "ms.watermark": json.dumps(dates),
        "ms.event.column": "at",
        "extract.namespace": "lake",
        "extract.table.name": "rows",
        "extract.table.type": "APPEND_ONLY",
        "writer.output.format": "PARQUET",
        "writer.file.path.type": "namespace_table",
        "data.publisher.final.dir": str(folder),
        "state.store.dir": str(folder / "state"),
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    path = folder / "rows.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return config.load(path, environ={}).job


def batch(*ids: int, note: str = "x") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"id": ids, "at": [H - each for each in ids], "note": [note] * len(ids)}, SCHEMA
    )


def put(folder: Path, name: str, *ids: int) -> str:
    pq.write_table(pa.Table.from_batches([batch(*ids)]), folder / name)
    return str(folder / name)


def measured(job: Job, published: tuple[PublishedRows, ...], *batches: pa.RecordBatch, **facts):
    meter = MeterContext(**{"largest": H, "published": {"u": published}, **facts})
    rows = NewRows(job, meter, "u", is_read_again=True, known_schema=KNOWN)
    for each in batches:
        rows.take(each, each.column("at"))
    rows.finish()
    rows.close()
    return rows.measured()


def test_rows_are_compared_with_those_of_the_work_unit_alone(tmp_path: Path) -> None:
    """A shared file has rows of others before and behind them."""
    path = put(tmp_path, "shared.parquet", 1, 2, 3, 4)
    found = measured(job_of(tmp_path), (PublishedRows(path, 1, 2),), batch(1, 2), batch(3, 4))
    assert found.rows_by_edge == ((1, 1), (4, 1))
    assert (found.largest, found.largest_before, found.unmeasured) == (H - 1, H, 0)


def test_columns_of_the_dataset_alone_and_of_the_rows_alone_tell_nothing(tmp_path: Path) -> None:
    path = put(tmp_path, "one.parquet", 1, 2)
    more = batch(1, 2, 3).append_column("fresh", pa.array([1, 2, 3]))
    found = measured(job_of(tmp_path), (PublishedRows(path, 0, 2),), more.drop_columns(["note"]))
    assert found.rows_by_edge == ((3, 1),)


def test_a_key_tells_corrected_rows_from_new_ones(tmp_path: Path) -> None:
    path = put(tmp_path, "one.parquet", 1, 2)
    job = job_of(tmp_path, extract__primary__key__fields="id")
    corrected = batch(1, 2, 3, note="other")
    assert measured(job, (PublishedRows(path, 0, 2),), corrected).rows_by_edge == ((3, 1),)
    assert (
        len(measured(job_of(tmp_path), (PublishedRows(path, 0, 2),), corrected).rows_by_edge) == 3
    )


def test_without_a_key_a_row_in_place_of_one_of_the_same_time_is_not_new(tmp_path: Path) -> None:
    path = put(tmp_path, "one.parquet", 1, 2, 3)
    published = (PublishedRows(path, 0, 3),)
    job = job_of(tmp_path, ms__publish__mode="window_replace")
    assert measured(job, published, batch(1, 2, 3, note="other")).rows_by_edge == ()

    more = pa.concat_batches([batch(1, 3), batch(1, 2, 2, 4, note="other")])
    assert measured(job, published, more).rows_by_edge == ((1, 1), (2, 1), (4, 1))


def test_a_field_with_the_time_of_the_run_does_not_make_rows_new(tmp_path: Path) -> None:
    derived = [{"name": "note", "formula": {"type": "epoc", "source": "CURRENTDATE"}}]
    job = job_of(tmp_path, ms__derived__fields=json.dumps(derived))
    path = put(tmp_path, "one.parquet", 1, 2)
    found = measured(job, (PublishedRows(path, 0, 2),), batch(1, 2, note="later"))
    assert found.rows_by_edge == ()


def test_many_rows_are_compared_in_portions_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_row_lateness, "PORTION_BYTES", 4000)
    monkeypatch.setattr(new_rows, "PORTION_BYTES", 4000)
    path = put(tmp_path, "one.parquet", *range(0, 3000, 3))
    batches = [batch(*range(start, start + 100)) for start in range(0, 3000, 100)]
    for keys in ("", "id"):
        job = job_of(tmp_path, extract__primary__key__fields=keys)
        found = measured(job, (PublishedRows(path, 0, 1000),), *batches)
        assert sum(rows for _, rows in found.rows_by_edge) == 2000


def test_what_cannot_be_compared_is_unmeasured_and_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job, gone = job_of(tmp_path), (PublishedRows(str(tmp_path / "gone.parquet"), 0, 2),)
    with caplog.at_level(logging.WARNING):
        assert measured(job, gone, batch(1, 2), batch(3)).unmeasured == 3
    assert "is not measured here" in caplog.text
    assert measured(job, (), batch(1), is_known=False).unmeasured == 1
    other = pa.RecordBatch.from_pydict({"id": ["a"], "at": [H]})
    path = put(tmp_path, "one.parquet", 1)
    assert measured(job, (PublishedRows(path, 0, 1),), batch(1, 2), other).unmeasured == 3
    keyed = job_of(tmp_path, extract__primary__key__fields="other")
    assert measured(keyed, (PublishedRows(path, 0, 1),), batch(1)).unmeasured == 1


def test_before_anything_is_published_only_the_largest_time_is_kept(tmp_path: Path) -> None:
    found = measured(job_of(tmp_path), (), batch(5, 1), largest=None, grace_ms=7)
    assert found == UnitLateness(None, H - 1, (), 0, 7)
    assert measured(job_of(tmp_path), ()) == UnitLateness(H)


def test_a_work_unit_of_which_nothing_was_published_has_new_rows_alone(tmp_path: Path) -> None:
    assert measured(job_of(tmp_path), (), batch(0, 2)).rows_by_edge == ((0, 1), (2, 1))
