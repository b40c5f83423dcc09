"""A merge whose dataset lies in a bucket."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dil.model.report import RunStatus
from tests.integration.merge_jobs import Shop
from tests.integration.s3_places import Bucket, use
from tests.servers.day_rows import DayRows
from tests.servers.s3 import MotoServer
from tests.stories import day

pytestmark = pytest.mark.long


def test_rows_are_merged_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = {
        day(0): [{"id": number, "name": "old", "at": 1} for number in range(3)],
        day(1): [{"id": 2, "name": "new", "at": 2}, {"id": 3.5, "name": "added", "at": 1}],
    }
    with MotoServer() as server, DayRows(days) as source:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        shop = Shop(tmp_path, source, data__publisher__final__dir=f"{bucket.uri}/lake")

        assert [shop.run(number).status for number in (1, 2)] == [RunStatus.SUCCESS] * 2

        files = bucket.objects("lake/shop/orders/part-").values()
    table = pa.concat_tables(pq.read_table(io.BytesIO(file)) for file in files)
    rows = sorted((row["id"], row["name"]) for row in table.to_pylist())
    assert rows == [(0, "old"), (1, "old"), (2, "new"), (3.5, "added")]
