"""How often a table's log is loaded: what is known of it is kept, and only what is new is read."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from dil.model.dataset import Intent
from dil.publishing import delta_store, iceberg_log
from dil.spi.destination import Destination
from tests.table_readers import FORMATS, catalog
from tests.unit.publishing.tables import Shop, orders

pytestmark = pytest.mark.slow


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def shop(tmp_path: Path, kind: str) -> Shop:
    """Return a table of several publishes, of which each is a file of its log."""
    made = Shop(tmp_path, kind)
    for number in range(5):
        made.publish(f"r{number}", orders(2 * number), orders(2 * number + 1))
    return made


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what is loaded: whole Delta logs, Iceberg's metadata, and each manifest by its path."""
    found: Counter[str] = Counter()

    class Counted(DeltaTable):
        def __init__(self, *arguments: object, **options: object) -> None:
            found["log"] += 1
            super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def entries(manifest: ManifestFile, table: Table) -> list[DataFile]:
        found[manifest.manifest_path] += 1
        return real_entries(manifest, table)

    def metadata(*arguments: Any) -> TableMetadata:
        found["metadata"] += 1
        return real_metadata(*arguments)

    real_entries, real_metadata = iceberg_log._entries, FromInputFile.table_metadata
    monkeypatch.setattr(delta_store, "DeltaTable", Counted)
    monkeypatch.setattr(iceberg_log, "_entries", entries)
    monkeypatch.setattr(FromInputFile, "table_metadata", metadata)
    return found


def publish(shop: Shop, destination: Destination, intent: Intent) -> None:
    destination.require_fit(intent.commit)  # type: ignore[attr-defined]
    destination.next_sequence()
    assert destination.lost(intent) == ()
    destination.carry_out(intent)


def test_looks_at_a_table_that_nobody_changes_load_it_once(shop: Shop, loads: Counter[str]) -> None:
    destination = shop.destination()
    destination.check()
    live = destination.live()
    known = loads.copy()
    assert set(known.values()) == {1}
    for _ in range(5):
        destination.check()
        assert destination.live() == live
        destination.next_sequence()
    assert loads == known


def test_a_publish_reads_of_the_log_what_it_wrote(shop: Shop, loads: Counter[str]) -> None:
    destination = shop.destination()
    first = [file for file in destination.live() if file.run_id == "r0"]
    planned = [
        shop.intent("r5", shop.move("r5", orders(10))),
        shop.intent("r6", shop.move("r6", orders(11)), removes=first),
    ]
    loads.clear()
    destination.live()
    for number, each in enumerate(planned):
        intent = Intent(each.commit, 1, str(shop.dataset), destination.next_sequence())
        before = loads.copy()
        publish(shop, destination, intent)
        read = loads - before
        # Once more where it holds a file that is taken out: all that is known of it is needed.
        manifests = {path: times for path, times in read.items() if path.endswith(".avro")}
        assert sum(path in before for path in manifests) <= number
        assert set(manifests.values()) <= {1}
        assert read["log"] == 0
        # The library loads the table to change it; then it is another one.
        assert read["metadata"] <= 2
    assert len(destination.live()) == 10
    assert shop.ids() == list(range(2, 12))


@pytest.mark.parametrize("kind", ["iceberg"], indirect=True)
def test_calls_within_a_block_open_the_catalog_once_and_close_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent, destination = shop.intent("r5", shop.move("r5", orders(10))), shop.destination()
    acts: list[str] = []
    real, close = iceberg_log.open_catalog, SqlCatalog.close

    def opened(*given: Any) -> Catalog:
        acts.append("opened")
        return real(*given)

    def closed(catalog: SqlCatalog) -> None:
        acts.append("closed")
        close(catalog)

    monkeypatch.setattr(iceberg_log, "open_catalog", opened)
    monkeypatch.setattr(SqlCatalog, "close", closed)
    with destination.connected():
        assert acts == []
        publish(shop, destination, intent)
        destination.live()
    assert acts == ["opened", "closed"]
    destination.live()
    assert acts == ["opened", "closed"] * 2


def drop(shop: Shop) -> None:
    shutil.rmtree(shop.dataset)
    if shop.kind == "iceberg":
        found = catalog(shop.folder)
        found.drop_table("shop.orders")
        found.close()


def begin_again(shop: Shop, publishes: int) -> None:
    drop(shop)
    for number in range(publishes):
        shop.publish(f"n{number}", orders(100 + number))


ACTS: dict[str, Callable[[Shop], object]] = {
    "rows appended elsewhere": lambda shop: shop.append_elsewhere(orders(100)),
    "a file taken out elsewhere": lambda shop: shop.remove_elsewhere(shop.live()["r0"]),
    "a version rolled back": Shop.roll_back,
    "a publish of another driver": lambda shop: shop.publish("r9", orders(100)),
    "the table dropped": drop,
    "another table in its place": lambda shop: begin_again(shop, 1),
    "a longer one in its place": lambda shop: begin_again(shop, 8),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_others_did_to_a_table_since_it_was_loaded_is_seen(shop: Shop, act: str) -> None:
    destination = shop.destination()
    old = destination.live()
    ACTS[act](shop)
    anew = shop.destination()
    assert destination.next_sequence() == anew.next_sequence()
    assert destination.live() == anew.live() != old
    intent = shop.intent("r10", shop.move("r10", orders(200)))
    publish(shop, destination, intent)
    assert 200 in shop.ids()
    assert destination.live() == shop.destination().live()
    assert len(shop.ids()) == len(destination.live())


def test_a_log_that_was_tidied_up_since_it_was_loaded_is_read_on(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "delta")
    shop.publish("r0", orders(0))
    destination = shop.destination()
    destination.live()
    for number in range(1, 4):
        shop.append_elsewhere(orders(number))
    DeltaTable(shop.dataset).create_checkpoint()
    newest = DeltaTable(shop.dataset).version()
    for path in (shop.dataset / "_delta_log").glob("*.json"):
        if int(path.stem) < newest:
            path.unlink()
    assert len(destination.live()) == 4
    shop.append_elsewhere(orders(4))
    assert len(destination.live()) == 5


def test_a_delta_table_is_opened_anew_with_other_credentials(
    tmp_path: Path, loads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.publishing.tables import files

    shop = Shop(tmp_path, "delta")
    shop.publish("r0", orders(0))
    destination = shop.destination()
    loads.clear()
    for token in ("a", "a", "b"):
        monkeypatch.setattr(files, "options_of", lambda path, token=token: {"token": token})
        destination.live()
    assert loads["log"] == 2
