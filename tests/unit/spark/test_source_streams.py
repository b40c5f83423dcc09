"""The source of a job as a stream, without Spark: offsets, and the work units between them."""

from __future__ import annotations

import inspect
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dil.spark.failing import DilQueryError
from dil.spark.limits import default_limit
from dil.spark.options import SourceOptions
from dil.spark.source_plans import source_job
from dil.spark.source_rows import SourceStreamReader
from dil.spark.work_units import Fit
from tests.jobs import DAY_MS, write_job
from tests.servers.rows import START_MS

HOUR_MS = DAY_MS // 24


def watermark(end: str, units: str = "a,b") -> str:
    return json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": end}},
            {"name": "unit", "type": "unit", "units": units},
        ]
    )


def reader(
    folder: Path, now: str, end: str = "-", option: str = "", **changes: str
) -> SourceStreamReader:
    given = {"ms__watermark": watermark(end), **changes}
    path = write_job(folder, "http://127.0.0.1:9", **given)
    given = {"conf": str(path), "now": now, "maxFilesPerTrigger": "2"}
    options = SourceOptions.of({**given, **({"from": option} if option else {})})
    return SourceStreamReader(source_job(options), options, Fit(pa.schema([]), is_inferred=False))


def units_of(found: Any) -> list[tuple[str, int, int]]:
    return [
        (unit.signature, (unit.low - START_MS) // HOUR_MS, (unit.high - START_MS) // HOUR_MS)
        for each in found
        for unit in each.value
    ]


def test_micro_batches_cover_the_range_once_whenever_they_are_cut(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    offset = reader(tmp_path, "2020-01-01T00:00:00Z").initialOffset()
    for now in ("2020-01-01T06:00:00Z", "2020-01-01T20:00:00Z", "2020-01-04T01:00:00Z"):
        stream = reader(tmp_path, now)
        while (end := stream.latestOffset(offset, default_limit(None, 2))) != offset:
            seen += units_of(stream.partitions(offset, end))
            offset = end

    covered = sorted(
        (signature[-4], hour) for signature, low, high in seen for hour in range(low, high)
    )
    assert covered == sorted((unit, hour) for unit in "ab" for hour in range(73))
    assert max(high - low for _, low, high in seen) == 24


def test_a_micro_batch_that_is_repeated_later_has_the_same_work_units(tmp_path: Path) -> None:
    stream = reader(tmp_path, "2020-01-01T06:00:00Z")
    start, end = stream.initialOffset(), stream.latestOffset()
    later = reader(tmp_path, "2020-02-01T00:00:00Z")

    assert units_of(later.partitions(start, end)) == units_of(stream.partitions(start, end))
    assert later.partitions(end, end) == []


def test_offsets_are_small_plain_json_and_the_first_one_is_pure(tmp_path: Path) -> None:
    stream = reader(tmp_path, "2020-01-03T00:00:00Z")

    first = stream.initialOffset()
    assert first == stream.initialOffset()
    assert json.loads(json.dumps(stream.latestOffset(first))) == stream.latestOffset(first)
    assert stream.reportLatestOffset()["done"] == START_MS + 2 * DAY_MS


def test_spark_sees_the_parameters_and_may_leave_them_out(tmp_path: Path) -> None:
    """Before Spark 4.2 the method is called without: a subclass with the old signature works."""

    class Old(SourceStreamReader):
        def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
            return super().latestOffset()

    stream = reader(tmp_path, "2020-01-03T00:00:00Z")
    stream.__class__ = Old
    assert list(inspect.signature(stream.latestOffset).parameters) == []
    assert stream.latestOffset()["done"] == START_MS + 2 * DAY_MS
    stream.commit(stream.latestOffset())  # nothing depends on it


def test_what_goes_to_the_tasks_has_no_job_beside_that_of_the_partition(tmp_path: Path) -> None:
    stream = reader(tmp_path, "2020-01-03T00:00:00Z")

    assert b"127.0.0.1" not in pickle.dumps(stream)
    found = stream.partitions(stream.initialOffset(), stream.latestOffset())
    assert len(found) == 4
    assert all(b"127.0.0.1" in pickle.dumps(each) for each in found)


def test_a_source_whose_units_may_change_meanwhile_is_refused(tmp_path: Path) -> None:
    files = {
        "source__class": "hdfs",
        "ms__source__uri": str(tmp_path / "in"),
        "ms__source__files__once": "path",
        "ms__watermark": "",
        "ms__work__unit__partition": "",
        "ms__parameters": "",
    }
    with pytest.raises(Exception, match=r"ms\.stream\.mode=ingest"):
        reader(tmp_path, "2020-01-03T00:00:00Z", **files)


def test_the_offset_of_another_query_is_refused(tmp_path: Path) -> None:
    stream = reader(tmp_path, "2020-01-03T00:00:00Z")
    with pytest.raises(DilQueryError, match="not written by this dil"):
        stream.latestOffset({"block": 3})


def rolling(folder: Path, now: str, **more: str) -> SourceStreamReader:
    window = watermark("P0D").replace("2020-01-01", "P10D")
    return reader(folder, now, ms__watermark=window, **more)


def test_a_range_that_moves_past_what_was_read_is_refused_with_a_from_that_goes_on(
    tmp_path: Path,
) -> None:
    stream = rolling(tmp_path, "2020-01-31T06:00:00Z")
    read = stream.latestOffset(stream.initialOffset(), default_limit(None, 2))
    assert read["done"] == START_MS + 21 * DAY_MS
    in_time = rolling(tmp_path, "2020-02-01T06:00:00Z").latestOffset(read)
    assert in_time["done"] == START_MS + 31 * DAY_MS

    late = rolling(tmp_path, "2020-02-05T06:00:00Z")
    with pytest.raises(DilQueryError, match=r"`from` of the watermark has moved on") as caught:
        late.latestOffset(read, default_limit(None, 2))

    advised = re.search(r'"from", "([^"]+)"', str(caught.value))
    assert advised is not None
    again = rolling(tmp_path, "2020-02-05T06:00:00Z", option=advised[1])
    units = units_of(again.partitions(read, again.latestOffset(read)))
    assert [low for _, low, _ in units if low < 26 * 24] == [
        day * 24 for day in range(21, 26) for _ in "ab"
    ]


def test_a_stream_that_has_read_nothing_begins_where_the_range_does_now(tmp_path: Path) -> None:
    first = rolling(tmp_path, "2020-01-31T23:59:59Z").initialOffset()

    end = rolling(tmp_path, "2020-02-01T00:00:01Z").latestOffset(first)

    assert end["done"] == START_MS + 31 * DAY_MS
