"""Delta and Iceberg tables with a column of timelabels, by which they are partitioned."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from pyiceberg.expressions import EqualTo

from dil.model.report import RunStatus
from tests.servers.http_server import HttpServer
from tests.servers.rows import Dataset
from tests.stories import ROWS_PER_DAY, STEP_MS, Story, day, ids_of
from tests.table_readers import FORMATS, delta_table, files_of, iceberg_table, ids, rows_of
from tests.timeseries import label_of

# The label of a work unit of one period is the beginning of it.
PARAMETERS = [
    {"name": "unit"},
    {"name": "since", "type": "watermark", "value": "low"},
    {"name": "until", "type": "watermark", "value": "high"},
    {"name": "cursor", "type": "session"},
    {"name": "limit", "type": "primitive", "value": 100},
    {"name": "label", "type": "watermark", "value": "low", "format": "datetime",
     "pattern": "yyyyMMddHHmmss", "timezone": "UTC"},
]  # fmt: skip
DERIVED = [{"name": "label", "formula": {"type": "string", "source": "{{label}}"}}]


def label_files(kind: str, folder: Path, label: str) -> list[str]:
    """Return the names of the files that a reader of one label has to read."""
    if kind == "delta":
        found = delta_table(folder).file_uris(file_pruning_predicate=[("label", "=", label)])
    else:
        scan = iceberg_table(folder).scan(row_filter=EqualTo("label", label))
        found = [task.file.file_path for task in scan.plan_files()]
    return sorted(Path(path).name for path in found)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_label_is_a_partition_that_is_read_and_replaced_by_itself(
    kind: str, tmp_path: Path
) -> None:
    rows = Dataset.generate(4 * ROWS_PER_DAY, units=("a", "b"), step_ms=STEP_MS)
    with HttpServer(rows) as source:
        story = Story(
            tmp_path, source, ms__table__format=kind, ms__publish__mode="window_replace",
            ms__parameters=json.dumps(PARAMETERS), ms__derived__fields=json.dumps(DERIVED),
            ms__table__partition__fields="label", ms__grace__period__days="1",
        )  # fmt: skip
        assert story.run(day(2)).status is RunStatus.SUCCESS
        first, second = (label_files(kind, tmp_path, label_of(number)) for number in (0, 1))
        assert first
        assert second
        assert not set(first) & set(second)

        assert story.run(day(3)).status is RunStatus.SUCCESS

    labels = [label_of(number) for number in range(3)]
    folders = {path.parent.name for path in files_of(kind, tmp_path)}
    assert folders == {f"label={label}" for label in labels}
    assert label_files(kind, tmp_path, labels[0]) == first
    assert not set(label_files(kind, tmp_path, labels[1])) & set(second)
    held = rows_of(kind, tmp_path)
    assert ids(held) == ids_of("a", "b", days=range(3))
    counted = pl.from_arrow(held.select(["label"])).group_by("label").len()
    assert dict(counted.iter_rows()) == dict.fromkeys(labels, 2 * ROWS_PER_DAY)
