"""Runs that crash, and what the next run makes of it: the same, whatever was changed since."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import dil.run.publish
from dil.errors import CommitUnknownError, ConfigError
from dil.model.report import RunStatus
from dil.publishing import manifest
from dil.publishing.publisher import Publisher
from tests.integration.merge_jobs import Shop
from tests.integration.s3_places import Bucket, use
from tests.servers.day_rows import DayRows
from tests.servers.s3 import MotoServer
from tests.stories import day
from tests.table_readers import delta_table

APPEND = {"ms__publish__mode": "append"}
DELTA = {**APPEND, "ms__table__format": "delta"}
LONG = "x" * 240


class Crash(BaseException):
    """The driver is gone."""


@contextmanager
def crashing(module: object, step: str) -> Iterator[None]:
    """Let runs end where they come to a step."""

    def crash(*_: object, **__: object) -> None:
        raise Crash

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):  # noqa: PT012 - a manager
        patch.setattr(module, step, crash)
        yield


def row(key: int, name: str, **more: str) -> dict[str, Any]:
    return {"id": key, "name": name, "at": 1, **more}


@pytest.fixture
def source() -> Iterator[DayRows]:
    with DayRows({day(number): [row(number, f"day {number}")] for number in range(3)}) as rows:
        yield rows


def in_table(shop: Shop) -> list[int]:
    found: list[int] = delta_table(shop.folder).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def test_of_equal_keys_the_last_day_stays_where_a_crashed_run_is_recovered(tmp_path: Path) -> None:
    with DayRows({day(number): [row(1, f"day {number}")] for number in range(8)}) as source:
        shop = Shop(tmp_path, source, extract__delta__fields="", job__commit__policy="successful")
        with crashing(dil.run.publish, "reshape"):
            shop.run(8)
        assert shop.run(8).recovered == ("run-1",)
    assert [each["name"] for each in shop.rows()] == ["day 7"]


def test_an_append_that_was_begun_is_not_finished_as_a_replace(
    tmp_path: Path, source: DayRows
) -> None:
    shop = Shop(tmp_path, source, **DELTA)
    shop.run(1)
    with crashing(Publisher, "carry_out"):
        shop.run(2)

    with pytest.raises(CommitUnknownError, match=r"ms\.publish\.mode=append"):
        shop.run(2, ms__publish__mode="replace")
    assert in_table(shop) == [0]

    assert shop.run(3).recovered == ("run-2",)
    assert in_table(shop) == [0, 1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        {"ms__table__format": "delta"},
        {"ms__table__format": "iceberg"},
        {"ms__warehouse__url": "sqlite:///{folder}/warehouse.db"},
    ],
    ids=["delta", "iceberg", "warehouse"],
)
@pytest.mark.parametrize(
    "step", [(Publisher, "carry_out"), (manifest, "advance")], ids=["begun", "moved"]
)
def test_files_that_were_begun_are_not_finished_elsewhere(
    tmp_path: Path, source: DayRows, changes: dict[str, str], step: tuple[object, str]
) -> None:
    shop = Shop(tmp_path, source, **APPEND)
    shop.run(1)
    with crashing(*step):
        shop.run(2)

    changed = {name: value.format(folder=tmp_path) for name, value in changes.items()}
    for _ in range(2):
        with pytest.raises(CommitUnknownError, match="Set the destination back"):
            shop.run(2, **changed)

    assert shop.run(3).recovered == ("run-2",)
    assert [each["id"] for each in shop.rows()] == [0, 1, 2]


def test_a_table_does_not_become_plain_files(tmp_path: Path, source: DayRows) -> None:
    shop = Shop(tmp_path, source, **DELTA)
    shop.run(1)
    with pytest.raises(ConfigError, match=r"ms\.table\.format"):
        shop.run(2, **APPEND, ms__table__format="files")
    assert in_table(shop) == [0]


def test_a_replace_leaves_what_lies_behind_a_link_as_it_is(tmp_path: Path, source: DayRows) -> None:
    shop = Shop(tmp_path / "job", source, ms__publish__mode="replace")
    shop.run(1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    (shop.folder / "lake/shop/orders/link").symlink_to(elsewhere)

    assert shop.run(1).status is RunStatus.SUCCESS

    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("policy", ["full", "successful"])
def test_a_key_that_is_too_long_for_a_bucket_fails_its_work_unit_until_it_is_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    fields = dict.fromkeys("pqrs", LONG)
    days = {day(0): [row(0, "a", p="1", q="1", r="1", s="1")], day(1): [row(1, "b", **fields)]}
    with MotoServer() as server, DayRows(days) as source:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        shop = Shop(
            tmp_path,
            source,
            **APPEND,
            data__publisher__final__dir=f"{bucket.uri}/lake",
            ms__table__partition__fields="p,q,r,s",
            job__commit__policy=policy,
        )

        failed = shop.run(2)
        assert failed.failures[0].signature is not None
        assert "1,024 bytes" in failed.failures[0].error

        source.days[day(1)] = [row(1, "b", p="1", q="1", r="1", s="1")]
        assert shop.run(2).status is RunStatus.SUCCESS
        assert len(bucket.objects("lake/shop/orders/p=1")) == 2
