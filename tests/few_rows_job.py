"""A job over the few rows of ``dil.testing``, for classes that come behind a source."""

# Of two days, each of which has the same 25 rows.
JOB = r"""
job.name=few
source.class=dil.testing.few_rows:FewRows
ms.source.uri=few rows
ms.x.few.rows.count=25
extract.namespace=shop
extract.table.name=few
extract.table.type=APPEND_ONLY
ms.extractor.class=json
ms.timezone=UTC
ms.watermark=[{"name": "day", "type": "datetime", \
  "range": {"from": "2024-12-30", "to": "2025-01-01"}}]
ms.work.unit.partition=daily
data.publisher.final.dir=lake
state.store.dir=state
"""
NOW = ("--now", "2025-01-02T00:00:00Z")
