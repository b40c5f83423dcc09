"""The examples of docs/databases.md read each row of a real database once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local_jobs import LocalJob
from tests.servers.postgresql import PASSWORD, PostgresqlServer

PAGE = Path(__file__).parents[2] / "docs" / "databases.md"
FENCE = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^([A-Za-z][\w.]*)=(.*(?:\n[ \t].*)*)", re.MULTILINE)
# Jobs and parts of jobs over tables of one database; the last one brings a jar of another.
EXAMPLES = [
    dict(LINE.findall(text))
    for text in FENCE.findall(PAGE.read_text(encoding="utf-8"))
    if "ms.jdbc.statement" in text and "ms.jdbc.reader" not in text
]
ROWS = 40
# 2024-01-15T00:00:00Z: windows of time begin with 2024, and so do rows, one every six hours.
SOON = 1_705_276_800_000


@pytest.fixture(scope="module")
def shop(postgresql_server: PostgresqlServer) -> Iterator[str]:
    url = postgresql_server.add_database("docs_shop")
    for table in ("orders", "customers"):
        postgresql_server.execute(
            f"create table {table} (id bigint primary key, updated timestamp)", "docs_shop"
        )
        postgresql_server.execute(
            f"insert into {table} select n, timestamp '2024-01-01' + n * interval '6 hours'"
            f" from generate_series(1, {ROWS}) n",
            "docs_shop",
        )
    yield f"jdbc:{url}"
    postgresql_server.drop_database("docs_shop")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each["ms.jdbc.statement"][:60])
def test_an_example_reads_every_row_once(
    example: dict[str, str], shop: str, tmp_path: Path
) -> None:
    there = {
        "job.name": LocalJob.name,
        "source.class": "jdbc",
        "extract.table.name": LocalJob.name,
        "ms.source.uri": shop,
        "source.conn.username": "admin",
        "source.conn.password": PASSWORD,
        "data.publisher.final.dir": str(tmp_path / "lake"),
    }
    changes = {name.replace(".", "__"): text for name, text in {**example, **there}.items()}
    job = LocalJob(tmp_path)
    if "ms.watermark" in example:
        job.now_ms = SOON
    report = job.run(**changes)
    assert report.failures == ()
    assert sorted(row["id"] for row in job.rows()) == list(range(1, ROWS + 1))


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 5
