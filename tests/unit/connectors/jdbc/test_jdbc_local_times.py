"""Which times of a window would be in the future if the database read them in UTC."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connectors.jdbc.local_times import times_ahead
from dil import config
from dil.model.interval import Interval
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.connector import SessionContext

HOUR_MS = 3_600_000
HIGH = 1_706_745_600_000  # 2024-02-01T00:00Z


def ahead(
    folder: Path,
    now_ms: int,
    pattern: str = "yyyy-MM-dd HH:mm",
    *,
    run_now: int = HIGH,
    partition_high: int = HIGH,
    unit: str = "{}",
    **properties: str,
) -> list[str]:
    stamp = {"type": "watermark", "format": "datetime", "pattern": pattern}
    given = {
        "job.name": "rows",
        "extract.table.name": "rows",
        "source.class": "jdbc",
        "ms.source.uri": "jdbc:postgresql://host/shop",
        "ms.jdbc.statement": "select * from t where at >= {{low}} and at < {{high}}",
        "ms.timezone": "Asia/Kolkata",
        "data.publisher.final.dir": str(folder / "lake"),
        "ms.parameters": json.dumps([{"name": at, "value": at, **stamp} for at in ("low", "high")]),
        **{name.replace("__", "."): value for name, value in properties.items()},
    }
    path = folder / "rows.conf"
    path.write_text("\n".join(f"{name}={value}" for name, value in given.items()) + "\n")
    partition = Interval(HIGH - HOUR_MS, partition_high)
    work_unit = WorkUnit("s", HIGH - HOUR_MS, HIGH, partition, "", unit, Reason.NEW)
    context = SessionContext(config.load(path, environ={}).job, work_unit, "r", run_now, 1)
    return list(times_ahead(context, now_ms))


@pytest.mark.parametrize(
    ("hours_after", "found"), [(0, ["low", "high"]), (5, ["high"]), (6, [])]
)  # fmt: skip
def test_local_times_east_of_utc_are_ahead_until_utc_has_them(
    tmp_path: Path, hours_after: int, found: list[str]
) -> None:
    assert ahead(tmp_path, HIGH + hours_after * HOUR_MS) == found


@pytest.mark.parametrize(
    ("pattern", "properties"),
    [
        ("yyyy-MM-dd HH:mmZZ", {}),
        ("yyyy-MM-dd HH:mm", {"ms__timezone": "UTC"}),
        ("yyyy-MM-dd HH:mm", {"ms__timezone": "America/Los_Angeles"}),
        ("yyyy-MM-dd HH:mm", {"ms__grace__period": "PT6H"}),
        ("yyyy-MM-dd HH:mm", {"ms__publish__mode": "replace"}),
        ("yyyy-MM-dd HH:mm", {"state__store__enabled": "false"}),
    ],
    ids=["offset", "UTC", "west", "grace", "replace", "no state"],
)
def test_times_that_lose_no_row_are_not_ahead(
    tmp_path: Path, pattern: str, properties: dict[str, str]
) -> None:
    assert ahead(tmp_path, HIGH, pattern, **properties) == []


def test_a_window_that_the_job_itself_puts_into_the_future_is_not_ahead(tmp_path: Path) -> None:
    assert ahead(tmp_path, HIGH, run_now=HIGH - 1) == []


@pytest.mark.parametrize(("rest_ms", "found"), [(0, ["low", "high"]), (1, [])])
def test_a_part_of_a_window_that_is_read_again_from_its_start_is_not_ahead(
    tmp_path: Path, rest_ms: int, found: list[str]
) -> None:
    mode = {"ms__publish__mode": "window_replace", "ms__work__unit__partition": "hourly"}
    assert ahead(tmp_path, HIGH, partition_high=HIGH + rest_ms, **mode) == found


def test_a_member_of_the_unit_that_replaces_a_parameter_is_not_ahead(tmp_path: Path) -> None:
    assert ahead(tmp_path, HIGH, unit='{"low":"2024-01-01"}') == ["high"]


def test_a_quoted_z_is_no_offset(tmp_path: Path) -> None:
    assert ahead(tmp_path, HIGH, "yyyy-MM-dd'T'HH:mm'Z'") == ["low", "high"]
