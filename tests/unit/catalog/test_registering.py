"""A catalog gets the entries that it lacks; a crash between two of them does no harm."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from dil import config
from dil.catalog import is_due, register
from dil.catalog.metastore import CatalogTable, Partition, TableChange
from dil.catalog.registering import columns_apart, partition_of
from dil.model.dataset import PublishedFile
from dil.model.destination import Layout
from dil.model.job import Job
from dil.model.timelabels import LABEL_FIELDS
from dil.publishing.layout import dataset_dir
from dil.storage import LocalFilesystem
from dil.types.schema_text import schema_text
from tests.jobs import write_job

SCHEMA = schema_text(pa.schema([("id", pa.int64())]))
FILES = LocalFilesystem()


class Catalog:
    """A catalog with one table; ``steps`` are the names of the changes, in their order."""

    def __init__(self) -> None:
        self.table: CatalogTable | None = None
        self.partitions: dict[tuple[str, ...], str] = {}
        self.steps: list[str] = []

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        yield self

    def put_table(self, table: CatalogTable, changing: Callable[[], None]) -> TableChange:
        if table == self.table:
            return TableChange.NONE
        changing()
        self.steps.append("table")
        known, self.table = self.table, table
        return TableChange.CREATED if known is None else TableChange.CHANGED

    def put_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        assert table == self.table
        self.steps.append("put")
        self.partitions |= {each.values: each.location for each in partitions}

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[Partition]) -> None:
        assert table == self.table
        self.steps.append("drop")
        for each in partitions:
            del self.partitions[each.values]


class Registered:
    """A dataset with a folder for each value of ``unit``, and the catalog that it is in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = Catalog()
        self.units = ["1", "2"]
        self.place = "lake"
        self.partitions = "unit"
        self.table = ""

    @property
    def job(self) -> Job:
        changes = {
            "ms__catalog__type": "glue",
            "data__publisher__final__dir": str(self.folder / self.place),
        }
        if self.partitions:
            changes["ms__table__partition__fields"] = self.partitions
        if self.table:
            changes["ms__catalog__table"] = self.table
        return config.load(write_job(self.folder, "http://h", **changes), environ={}).job

    def live(self) -> list[PublishedFile]:
        base = dataset_dir(self.job.publishing)
        return [
            PublishedFile(FILES.uri(f"{base}/unit={unit}/part.parquet"), "", 1, 1, "", "r")
            for unit in self.units
        ]

    def register(self, schema: str = SCHEMA) -> tuple[str, ...] | None:
        """Register the dataset and return the notes; None if the catalog lacks nothing."""
        due = is_due(self.job, FILES, self.live, schema)
        return None if due is None else register(self.job, due, self.catalog.opened, FILES)

    @property
    def found(self) -> dict[tuple[str, ...], str]:
        """Return the folders of the partitions in the catalog, without the dataset's folder."""
        base = f"file://{dataset_dir(self.job.publishing)}/"
        return {each: where.removeprefix(base) for each, where in self.catalog.partitions.items()}


@pytest.fixture
def orders(tmp_path: Path) -> Registered:
    return Registered(tmp_path)


def test_a_run_registers_what_came_and_drops_what_went(orders: Registered) -> None:
    assert orders.register("") is None, "nothing was published"
    assert orders.register() == ()
    assert orders.register() is None
    orders.units = ["2", "a%20b"]
    orders.catalog.steps.clear()
    assert orders.register() == ()
    assert orders.catalog.steps == ["put", "drop"]
    assert orders.found == {("2",): "unit=2", ("a b",): "unit=a%20b"}


def test_partitions_move_with_their_dataset_though_somebody_moved_the_table_before(
    orders: Registered,
) -> None:
    orders.register()
    shutil.move(orders.folder / "lake", orders.folder / "sea")
    orders.place = "sea"
    due = is_due(orders.job, FILES, orders.live, SCHEMA)
    assert due is not None
    moved = Catalog()
    register(orders.job, (due[0], None), moved.opened, FILES)
    orders.catalog.table = moved.table
    register(orders.job, due, orders.catalog.opened, FILES)
    assert orders.found == {("1",): "unit=1", ("2",): "unit=2"}


def test_a_registration_that_breaks_off_after_the_table_is_made_again_as_a_whole(
    orders: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.register()
    wider = schema_text(pa.schema([("id", pa.int64()), ("more", pa.string())]))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(orders.catalog, "put_partitions", killed)
        with pytest.raises(KeyboardInterrupt):
            orders.register(wider)
    orders.catalog.partitions.clear()  # a catalog may keep columns with each of them
    orders.register(wider)
    assert orders.found == {("1",): "unit=1", ("2",): "unit=2"}


def test_of_two_jobs_that_append_neither_removes_the_partition_of_the_other(
    orders: Registered,
) -> None:
    """While one job lists the live files, the other publishes a unit and registers it."""
    orders.units = ["1"]
    orders.register()

    def live() -> list[PublishedFile]:
        found = orders.live()
        orders.units = ["1", "2"]
        orders.register()
        return found

    due = is_due(orders.job, FILES, live, SCHEMA)
    if due is not None:
        register(orders.job, due, orders.catalog.opened, FILES)
    assert ("2",) in orders.catalog.partitions


def test_a_table_that_somebody_dropped_is_made_again_with_all_its_partitions(
    orders: Registered,
) -> None:
    orders.register()
    orders.catalog = Catalog()
    orders.units = ["2", "3"]
    orders.register()
    assert orders.catalog.steps == ["table", "put"], "there is nothing to drop"
    assert orders.found == {("2",): "unit=2", ("3",): "unit=3"}


def test_files_outside_of_all_partitions_are_counted_for_people(orders: Registered) -> None:
    base = dataset_dir(orders.job.publishing)
    alone = PublishedFile(FILES.uri(f"{base}/part.parquet"), "", 1, 1, "", "r")
    due = is_due(orders.job, FILES, lambda: [*orders.live(), alone], SCHEMA)
    assert due is not None
    (note,) = register(orders.job, due, orders.catalog.opened, FILES)
    assert note.startswith("no folder of a partition (unit) has 1 file of the dataset")


def test_a_dataset_without_partitions_counts_files_in_folders(orders: Registered) -> None:
    orders.partitions = ""
    base = dataset_dir(orders.job.publishing)
    files = [
        PublishedFile(FILES.uri(f"{base}/{name}.parquet"), "", 1, 1, "", "r")
        for name in ("a", "unit=1/a", "unit=1/b")
    ]
    due = is_due(orders.job, FILES, lambda: files, SCHEMA)
    assert due is not None
    assert (due[0].folders, due[0].strange) == ((), 2)


def test_names_of_columns_are_quoted_in_folders() -> None:
    found = partition_of("a%20b=x%3Dy", ("a b",), "/lake", FILES)
    assert found == Partition(("x=y",), "file:///lake/a%20b=x%3Dy")


def test_the_columns_of_a_timelabel_come_before_those_of_the_table(orders: Registered) -> None:
    spec = replace(orders.job.publishing, layout=Layout.TIMELABEL)
    assert columns_apart(spec) == (*LABEL_FIELDS, "unit")


def test_each_table_of_a_catalog_has_a_record_of_its_own(orders: Registered) -> None:
    orders.register()
    orders.table, first = "others", orders.catalog
    orders.catalog = Catalog()
    assert orders.register() == ()
    orders.table, orders.catalog = "", first
    assert orders.register() is None
