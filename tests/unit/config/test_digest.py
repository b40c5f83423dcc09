"""The digest of a job that nobody changed is the same in every release."""

from __future__ import annotations

import pytest

JOB = """job.name=orders
extract.namespace=shop
extract.table.name=orders
extract.table.type=APPEND_ONLY
source.class=http
ms.source.uri=https://example.com/orders
ms.watermark=[{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "-"}}]
ms.work.unit.partition=daily
ms.timezone=UTC
ms.extractor.class=json
data.publisher.final.dir=s3://lake/x
"""
TIMESERIES = """ms.warehouse.url=postgresql://db.example.com/lake
ms.warehouse.table.kind=timeseries
ms.timelabel.schedule=@daily
ms.timelabel.split=none
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JOB, "4103a449a39fa9ec820f8a82fbadc23db213b79ecd32951993be5d59d22e2d7d"),
        (JOB + TIMESERIES, "20cedcc726113a757b1bc3709070c5b9e0079ba1b2c7ce16ee0f5840522d54e3"),
    ],
)
def test_a_new_release_knows_what_the_last_one_began(load_text, text, expected):
    # Work that a crash left, rows that were sent, open backfills and kept plans are known by it.
    # A new property or field with its default must not change it.
    assert load_text("job.conf", text).job.digest == expected
