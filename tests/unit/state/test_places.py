"""Where state may lie, and what opening it says."""

import sys
from pathlib import Path

import pytest

from dil import databases
from dil.databases import mysql
from dil.errors import LeaseHeldError, StateError
from dil.model.job import StateSpec
from dil.state import open_store
from dil.state.databases import mounts
from dil.state.databases.mounts import filesystem_of
from dil.text.database_url import read_database_url

MOUNTS = r"""overlay / overlay rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sda1 /home/local ext4 rw 0 0
//nas/share /mnt/big\040disk cifs rw 0 0
user@host:/ /mnt/s fuse.sshfs rw 0 0
/dev/sdb1 /mnt/s ext4 rw 0 0

broken
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/dil", "overlay"),
        ("/home/ann/.dil", "nfs4"),
        ("/home/local/.dil", "ext4"),
        ("/homely", "overlay"),
        ("/mnt/big disk/state", "cifs"),
        ("/mnt/s", "ext4"),
    ],
)
def test_the_filesystem_is_that_of_the_longest_mount_point(folder: str, kind: str) -> None:
    assert filesystem_of(Path(folder), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs4", "ceph", "fuse.ceph-fuse", "fuse.glusterfs", "lustre"])
def test_state_on_a_network_mount_is_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"server:/x {tmp_path.resolve()} {kind} rw 0 0\n")
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    store = open_store(StateSpec("sqlite", str(tmp_path / "state")), "orders", clock=lambda: 0)
    with pytest.raises(StateError) as caught:
        store.acquire_lease("r1", lease_s=60)
    assert kind in caught.value.message
    assert not (tmp_path / "state").exists()


def test_nothing_is_known_of_mounts_where_the_system_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "absent")
    assert mounts.network_mount_of(tmp_path) is None


@pytest.mark.parametrize(
    "spec",
    [
        StateSpec("postgresql", ""),
        StateSpec("mysql", ""),
        StateSpec("sqlite", ""),
        StateSpec("filelog", ""),
        StateSpec("zk", "/state"),
    ],
)
def test_unknown_kinds_and_missing_places_are_refused_with_what_to_do(spec: StateSpec) -> None:
    with pytest.raises(StateError) as caught:
        open_store(spec, "orders", clock=lambda: 0)
    assert caught.value.fix


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c?d#e"
    with open_store(StateSpec("sqlite", str(folder)), "orders", clock=lambda: 0) as store:
        store.acquire_lease("r1", lease_s=60)
    assert (folder / "state.db").exists()


def test_a_store_that_keeps_no_watermarks_still_keeps_the_lease(tmp_path: Path) -> None:
    spec = StateSpec("noop", str(tmp_path), enabled=False)
    with open_store(spec, "orders", clock=lambda: 0) as store:
        store.acquire_lease("r1", lease_s=60)
        with pytest.raises(LeaseHeldError):
            store.acquire_lease("r2", lease_s=60)


def test_a_folder_that_cannot_be_made_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(StateSpec("sqlite", str(tmp_path / "file/state")), "orders", clock=lambda: 0)
    with pytest.raises(StateError):
        store.acquire_lease("r1", lease_s=60)


@pytest.mark.parametrize(("kind", "package"), [("postgresql", "psycopg"), ("mysql", "pymysql")])
def test_a_missing_driver_names_what_to_install(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    mysql.driver.cache_clear()
    # What was imported before would not miss its driver.
    monkeypatch.delitem(sys.modules, "dil.databases.bounded_psycopg", raising=False)
    monkeypatch.delattr(databases, "bounded_psycopg", raising=False)
    address = read_database_url(f"{kind}://127.0.0.1:1/dil").address
    with open_store(StateSpec(kind, server=address), "orders", clock=lambda: 0) as store:
        with pytest.raises(StateError) as caught:
            store.head()
        with pytest.raises(StateError):
            store.acquire_lease("r1", lease_s=60)
    assert package in caught.value.message
    assert f"'dil-spark[{kind}]'" in caught.value.fix


def test_the_place_of_a_store_tells_it_from_others_and_holds_no_secret() -> None:
    text = "postgresql://ann:hunter2@db/dil?schema=state&sslmode=require"
    spec = StateSpec("postgresql", server=read_database_url(text).address)
    assert spec.place == "postgresql://db:5432/dil?schema=state"
    assert "hunter2" not in repr(spec)
    assert StateSpec("sqlite", "/state").place == "/state"
