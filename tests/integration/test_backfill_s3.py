"""A backfill where dataset and state are in a bucket: no renames, no locks, no folders."""

from __future__ import annotations

import io
from collections import Counter

import pyarrow.parquet as pq
import pytest

from dil.model.report import RunStatus
from dil.operator.backfill.status import Phase
from tests.backfills import Backfills, correct, source_notes
from tests.integration.s3_places import Bucket, use
from tests.servers.s3 import MotoServer
from tests.stories import Story, day

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def moto():
    with MotoServer() as server:
        yield server


@pytest.fixture
def bucket(moto, monkeypatch):
    use(moto.url, monkeypatch)
    return Bucket(moto)


def visible_notes(bucket: Bucket) -> Counter[tuple[str, int, str | None]]:
    """Return the rows that a reader of the folder finds, with their notes."""
    rows: Counter[tuple[str, int, str | None]] = Counter()
    for key, content in bucket.objects("lake/").items():
        if any(part.startswith(("_", ".")) for part in key.split("/")):
            continue
        table = pq.read_table(io.BytesIO(content), columns=["unit", "id", "note"])
        rows.update((row["unit"], row["id"], row["note"]) for row in table.to_pylist())
    return rows


def test_a_backfill_in_a_bucket_is_published_taken_back_and_dropped(tmp_path, source, bucket):
    story = Story(
        tmp_path,
        source,
        data__publisher__final__dir=f"{bucket.uri}/lake",
        state__store__type="fs",
        state__store__dir=f"{bucket.uri}/state",
        ms__publish__mode="window_replace",
        extract__primary__key__fields="id,unit",
    )
    story.run(day(4))
    before = visible_notes(bucket)
    correct(source, "a", 5)
    backfills = Backfills(story, 4)
    definition = backfills.take(range(1, 3))
    total = backfills.compare(definition).total

    assert total is not None
    assert (total.changed, total.same) == (1, 15)
    assert visible_notes(bucket) == before
    backfills.publish(definition)
    assert visible_notes(bucket) == source_notes(source, range(4))
    backfills.undo(definition)
    assert visible_notes(bucket) == before
    assert backfills.status(definition).phase is Phase.UNDONE
    backfills.undo(definition)
    backfills.drop(definition)

    assert not bucket.keys("lake/_backfill/")
    assert visible_notes(bucket) == source_notes(source, range(4))
    assert story.run(day(4)).status is RunStatus.NOTHING_DUE
    assert story.head()
