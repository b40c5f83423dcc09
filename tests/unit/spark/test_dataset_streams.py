"""A dataset as a stream, without Spark: micro-batches whose files are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dil.execution.spark_types import spark_schema
from dil.spark.dataset_rows import DatasetRows
from dil.spark.failing import DilQueryError
from dil.spark.options import SourceOptions
from tests.derived import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def stream_of(lake: Lake) -> Any:
    rows = DatasetRows(SourceOptions.of({"dataset": str(lake.orders)}))
    return rows.stream(spark_schema(rows.columns()), is_inferred=True)


def stream_schema(lake: Lake) -> pa.Schema:
    return DatasetRows(SourceOptions.of({"dataset": str(lake.orders)})).columns()


def ids_of(stream: Any, partitions: Any) -> list[int]:
    return [
        row["id"] for each in partitions for batch in stream.read(each) for row in batch.to_pylist()
    ]


def test_a_micro_batch_that_a_checkpoint_began_is_read_again_after_later_runs(lake: Lake) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    start, end = stream.initialOffset(), stream.latestOffset()
    lake.feed(*range(3, 6))
    assert ids_of(stream, stream.partitions(start, end)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("taken", "advice"), [(0, "a new checkpoint folder, and replace"), (1, "startingOffset=5")]
)
def test_a_micro_batch_whose_files_were_put_together_says_where_a_new_checkpoint_begins(
    lake: Lake, taken: int, advice: str
) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    offsets = [stream.initialOffset()]
    for first in (3, 6, 9):
        lake.feed(*range(first, first + 3))
        offsets.append(stream.latestOffset())
    lake.compact(lake.orders)

    with pytest.raises(DilQueryError, match="DIL-STATE") as caught:
        stream.partitions(offsets[taken], offsets[-1])

    assert advice in str(caught.value)
    assert "a new folder" in str(caught.value)  # Spark's file sink would skip the new batches


def test_a_stream_that_ends_by_itself_leaves_what_is_published_meanwhile(lake: Lake) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset()
    lake.feed(*range(3, 6))
    assert stream.latestOffset() == end
    assert ids_of(stream, stream.partitions(stream.initialOffset(), end)) == [0, 1, 2]


def test_a_stream_that_is_ahead_of_the_state_does_not_go_on(lake: Lake) -> None:
    lake.feed(*range(3))
    stream = stream_of(lake)
    end = stream.latestOffset()
    with pytest.raises(DilQueryError, match="DIL-STATE"):
        stream.latestOffset({**end, "block": end["block"] + 5})


def test_a_stream_begins_after_whole_blocks_alone(lake: Lake) -> None:
    lake.feed(*range(3))
    lake.feed(*range(3, 6))
    rows = DatasetRows(SourceOptions.of({"dataset": str(lake.orders), "startingOffset": "1"}))
    with pytest.raises(DilQueryError, match="use the last offset of a block"):
        rows.stream(spark_schema(stream_schema(lake)), is_inferred=True).initialOffset()


def test_a_frame_has_the_rows_of_the_moment_when_its_columns_were_asked(lake: Lake) -> None:
    lake.feed(*range(3))
    rows = DatasetRows(SourceOptions.of({"dataset": str(lake.orders)}))
    schema = spark_schema(rows.columns())
    lake.feed(*range(3, 6))
    reader: Any = rows.reader(schema, is_inferred=True)
    assert ids_of(reader, reader.partitions()) == [0, 1, 2]
