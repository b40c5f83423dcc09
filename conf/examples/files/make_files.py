"""Makes the files that the two jobs beside it read, from the weather of ../custom_connector."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

HERE = Path(__file__).parent
DAYS = ("2013-01-02", "2013-01-03", "2013-01-04")


def write(table: pa.Table, path: Path) -> None:
    """Write a packed CSV file; the same rows are the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink)
    path.write_bytes(gzip.compress(sink.getvalue().to_pybytes(), mtime=0))


def main() -> None:
    """Write a folder for each day with a CSV file for each station, and one Parquet file."""
    weather = pyarrow.csv.read_csv(HERE.parent / "custom_connector" / "weather.csv")
    for day in DAYS:
        is_today = pc.starts_with(weather["time_hour"].cast(pa.string()), day)
        for station in ("EWR", "JFK", "LGA"):
            rows = weather.filter(pc.and_(is_today, pc.equal(weather["origin"], station)))
            write(rows, HERE / "incoming" / day / f"{station}.csv.gz")
    (HERE / "archive").mkdir(exist_ok=True)
    pq.write_table(weather, HERE / "archive" / "2013-01.parquet", compression="zstd")


if __name__ == "__main__":
    main()
