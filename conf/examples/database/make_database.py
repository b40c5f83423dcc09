"""Makes the DuckDB file that orders.conf reads: three days of orders, 1000 a day.

.venv/bin/python conf/examples/database/make_database.py
"""

import sys
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
TABLE = """
create or replace table orders as
select
    i as id,
    timestamptz '2024-05-01 00:00:00Z' + i * interval '86.4 seconds' as updated,
    (i * 1.25)::decimal(12, 2) as amount,
    case when i % 3 = 0 then null else 'customer ' || i % 50 end as customer,
    ['red', 'large'][: i % 3] as tags
from range(3000) numbers(i)
"""


def make(path: Path) -> None:
    """Write the file anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(TABLE)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "../../../.demo/orders.duckdb")
