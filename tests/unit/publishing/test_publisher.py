"""The order of a publish, and that each step may be cut off and done again."""

from __future__ import annotations

import grp
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from msgspec import structs

from dil.errors import CommitUnknownError, LeaseLostError, StateError, WriteError
from dil.model.dataset import Commit, Lease, Move, RunWork
from dil.model.job import Job, PublishingSpec, PublishMode, StateSpec
from dil.publishing import layout
from dil.publishing.manifest import live_files
from dil.publishing.publisher import Publisher, delete_staging, untracked_files
from dil.publishing.results import FinishedUnit, PublishTarget
from dil.spi.state_store import StateStore
from dil.state import open_store
from dil.storage import Filesystem, LocalFilesystem
from tests.servers.rows import DAY_MS, START_MS
from tests.unit.publishing.published import decided, job, report, staged_file, unit

pytestmark = pytest.mark.slow

NOW = START_MS + 100 * DAY_MS
files = LocalFilesystem()
STEPS = ("make_folder", "move", "sync_folders", "put_if_absent", "put", "delete_file")


class Crash(BaseException):
    """The driver is gone."""


class Stepping(LocalFilesystem):
    """The real filesystem; writes each step down and may crash before or after one of them."""

    def __init__(self, log: list[str], crash_at: int = -1) -> None:
        for name in STEPS:
            setattr(self, name, self._step(name, getattr(self, name)))
        self._log = log
        self._crash_at = crash_at
        self._count = 0

    def _step(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kinds: object) -> object:
            self._moment(f"before {name}")
            done = real(*args, **kinds)
            self._moment(name)
            return done

        return step

    def _moment(self, name: str) -> None:
        if self._count == self._crash_at:
            raise Crash
        self._count += 1
        self._log.append(name)


@dataclass
class Orders:
    """A dataset with two live files of day 0, a staged replacement, and the job's state."""

    folder: Path
    mode: str = "window_replace"

    @property
    def dataset(self) -> Path:
        return self.folder / "lake" / "shop" / "orders"

    @property
    def spec(self) -> PublishingSpec:
        return self.job.publishing

    @property
    def job(self) -> Job:
        return job(self.folder, ms__publish__mode=self.mode)

    def store(self) -> StateStore:
        state = StateSpec("sqlite", str(self.folder / "state"))
        return open_store(state, "orders", clock=lambda: NOW)

    def publisher(self, store: StateStore, filesystem: Filesystem = files) -> Publisher:
        return Publisher(self.job, store, filesystem)

    def commit(self, run: str, *names: str) -> Commit:
        """Stage files of day 0 for a run; return what it decides."""
        staging = self.folder / "lake" / "_staging" / "orders" / run
        staged = [staged_file(staging, name) for name in names]
        target = PublishTarget(
            run_id=run,
            output_dir=str(self.dataset),
            live=live_files(files, str(self.dataset)),
            untracked=(),
            system_time=NOW,
            horizon=NOW,
        )
        return decided(self.job, target, [FinishedUnit(unit(), report(unit(), *staged))], files)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.dataset.iterdir() if path.is_file())

    def live(self) -> list[str]:
        live = live_files(files, str(self.dataset))
        return sorted(file.uri.rpartition("/")[2] for file in live)


def first_publish(folder: Path, mode: str = "window_replace") -> Orders:
    orders = Orders(folder, mode)
    folder.mkdir(exist_ok=True)
    with orders.store() as store, leased(store) as lease:
        orders.publisher(store).publish(lease, orders.commit("r1", "a.parquet", "b.parquet"))
    return orders


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return first_publish(tmp_path / "job")


@contextmanager
def leased(store: StateStore) -> Iterator[Lease]:
    lease = store.acquire_lease("r", lease_s=60)
    yield lease
    store.release_lease(lease)


def logged(store: StateStore, log: list[str], monkeypatch: pytest.MonkeyPatch) -> StateStore:
    for name in ("record_intent", "commit"):
        real = getattr(store, name)

        def call(*args: object, real: Callable[..., object] = real, name: str = name) -> object:
            done = real(*args)
            log.append(name)
            return done

        monkeypatch.setattr(store, name, call)
    return store


def test_the_order_is_intent_then_files_then_manifest_then_removal_then_commit(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    with orders.store() as store, leased(store) as lease:
        commit = orders.commit("r2", "c.parquet")
        orders.publisher(logged(store, log, monkeypatch), Stepping(log)).publish(lease, commit)

    def at(name: str) -> int:
        return log.index(name)

    order = [at(name) for name in ("record_intent", "move", "before put_if_absent", "commit")]
    assert order == sorted(order)
    assert "sync_folders" in log[at("move") : at("before put_if_absent")]
    removals = [number for number, name in enumerate(log) if name == "delete_file"]
    assert all(at("put_if_absent") < number < at("commit") for number in removals)
    assert log[-1] == "commit"


def test_what_a_publish_leaves_is_what_it_decided(orders: Orders) -> None:
    with orders.store() as store, leased(store) as lease:
        block = orders.publisher(store).publish(lease, orders.commit("r2", "c.parquet"))

        assert block is not None
        assert block == store.head()
        assert store.pending_intent() is None
    (name,) = orders.names()
    assert name.startswith("part-r2-")
    assert orders.live() == [name]


def test_a_publish_cut_off_at_any_step_is_finished_by_the_next_run(tmp_path: Path) -> None:
    log: list[str] = []
    orders = first_publish(tmp_path / "whole")
    with orders.store() as store, leased(store) as lease:
        orders.publisher(store, Stepping(log)).publish(lease, orders.commit("r2", "c.parquet"))
    assert len(log) > 10

    for step in range(len(log)):
        orders = first_publish(tmp_path / f"at-{step}")
        commit = orders.commit("r2", "c.parquet")
        with orders.store() as store:
            lease = store.acquire_lease("r2", lease_s=60)
            with pytest.raises(Crash):
                orders.publisher(store, Stepping([], step)).publish(lease, commit)
            store.release_lease(lease)

        with orders.store() as store, leased(store) as lease:
            assert orders.publisher(store).finish_pending(lease) == commit
            assert store.pending_intent() is None
            assert orders.publisher(store).finish_pending(lease) is None
        (name,) = orders.names()
        assert name.startswith("part-r2-"), step
        assert orders.live() == [name], step


def test_a_commit_without_files_is_remembered_without_a_manifest(orders: Orders) -> None:
    before = sorted(path.name for path in (orders.dataset / "_dil").iterdir())
    outcomes = orders.commit("r2", "c.parquet").run.outcomes
    commit = replace(
        orders.commit("r2"),
        removes=(),
        run=RunWork((replace(outcomes[0], high=None, error="no"),)),
    )

    with orders.store() as store, leased(store) as lease:
        orders.publisher(store).publish(lease, commit)
        assert [state.status for state in store.unit_states()] == ["FAILED"]

    assert sorted(path.name for path in (orders.dataset / "_dil").iterdir()) == before


def test_a_lost_lease_moves_nothing(orders: Orders) -> None:
    before = orders.names()
    with closing(orders.store()) as store, closing(orders.store()) as other:
        lease = store.acquire_lease("r2", lease_s=60)
        store.release_lease(lease)
        other.acquire_lease("r3", lease_s=60)

        with pytest.raises(LeaseLostError):
            orders.publisher(store).publish(lease, orders.commit("r2", "c.parquet"))

        assert store.pending_intent() is None
    assert orders.names() == before


def test_a_start_marker_stays_until_the_answers_are_recorded(orders: Orders) -> None:
    """Else rows would be sent again if this publish is given up."""
    folder = Path(layout.sending_dir(orders.spec, "orders"))
    folder.mkdir(parents=True)
    marker = folder / f"{unit().hash}.json"
    marker.touch()
    commit = orders.commit("r2", "c.parquet")
    with closing(orders.store()) as store:
        lost = store.acquire_lease("r2", lease_s=60)
        store.release_lease(lost)
        with leased(store) as lease:
            with pytest.raises(LeaseLostError):
                orders.publisher(store).append_block(lost, commit)
            assert marker.exists()

            orders.publisher(store).append_block(lease, commit)

    assert not marker.exists()


def test_a_run_appends_nothing_if_another_copy_of_its_state_published_meanwhile(
    tmp_path: Path,
) -> None:
    orders = first_publish(tmp_path / "job", "append")
    state, copy = orders.folder / "state", orders.folder / "copy"
    shutil.copytree(state, copy)
    with orders.store() as store, leased(store) as lease:
        orders.publisher(store).publish(lease, orders.commit("r2", "c.parquet"))
    shutil.rmtree(state)
    copy.rename(state)
    before = orders.names()

    with orders.store() as store, leased(store) as lease:
        with pytest.raises(StateError):
            orders.publisher(store).make_visible(lease, orders.commit("r3", "c.parquet"))
        assert store.pending_intent() is None
    assert orders.names() == before


def test_nothing_pending_is_nothing_to_finish(orders: Orders) -> None:
    with orders.store() as store, leased(store) as lease:
        assert orders.publisher(store).finish_pending(lease) is None


def test_a_staged_file_that_is_gone_keeps_the_intent_for_the_operator(orders: Orders) -> None:
    commit = orders.commit("r2", "c.parquet")
    Path(commit.moves[0].source).unlink()

    with orders.store() as store, leased(store) as lease:
        with pytest.raises(WriteError):
            orders.publisher(store).publish(lease, commit)
        with pytest.raises(CommitUnknownError) as caught:
            orders.publisher(store).finish_pending(lease)
        assert commit.moves[0].source in caught.value.message
        assert store.pending_intent() is not None
    assert len(orders.names()) == 2
    assert orders.live() == orders.names()


def test_folders_and_files_get_the_permissions_of_the_job(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    spec = replace(orders.spec, dir_mode=0o750, file_mode=0o640)

    with orders.store() as store, leased(store) as lease:
        publisher = Publisher(replace(orders.job, publishing=spec), store, files)
        publisher.publish(lease, orders.commit("r1", "a.parquet"))

    (name,) = orders.names()
    assert stat.S_IMODE((orders.dataset / name).stat().st_mode) == 0o640
    assert stat.S_IMODE(orders.dataset.stat().st_mode) == 0o750


def test_files_belong_to_the_group_of_the_job(tmp_path: Path) -> None:
    # Root gives files to any group, others to one of theirs.
    number = grp.getgrnam("daemon").gr_gid if os.geteuid() == 0 else max(os.getgroups())
    orders = Orders(tmp_path)
    spec = replace(orders.spec, group=grp.getgrgid(number).gr_name)

    with orders.store() as store, leased(store) as lease:
        publisher = Publisher(replace(orders.job, publishing=spec), store, files)
        publisher.publish(lease, orders.commit("r1", "a.parquet"))

    (name,) = orders.names()
    assert (orders.dataset / name).stat().st_gid == number


# Strays


def test_untracked_files_are_visible_files_that_no_manifest_knows(orders: Orders) -> None:
    for name in ("x.parquet", "_x", ".x", "deep/y.parquet", "_deep/z.parquet", "deep/_z"):
        path = orders.dataset / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("12345")
    live = live_files(files, str(orders.dataset))

    found = untracked_files(replace(orders.spec, mode=PublishMode.REPLACE), live, files)

    base = orders.dataset.as_uri()
    assert sorted(file.uri for file in found) == [f"{base}/deep/y.parquet", f"{base}/x.parquet"]
    assert {file.bytes for file in found} == {5}


def test_an_append_looks_for_no_untracked_files(orders: Orders) -> None:
    (orders.dataset / "x.parquet").write_text("1")
    live = live_files(files, str(orders.dataset))

    assert untracked_files(replace(orders.spec, mode=PublishMode.APPEND), live, files) == ()


def test_a_window_replace_takes_away_its_own_files_that_no_manifest_knows(orders: Orders) -> None:
    (orders.dataset / "x.parquet").write_text("1")
    live = live_files(files, str(orders.dataset))

    found = untracked_files(replace(orders.spec, mode=PublishMode.WINDOW_REPLACE), live, files)

    assert [file.uri.rpartition("/")[2] for file in found] == ["x.parquet"]


def test_without_manifests_a_window_replace_sees_what_lies_there(orders: Orders) -> None:
    found = untracked_files(replace(orders.spec, mode=PublishMode.WINDOW_REPLACE), (), files)

    assert sorted(file.uri.rpartition("/")[2] for file in found) == orders.names()
    assert untracked_files(replace(orders.spec, mode=PublishMode.APPEND), (), files) == ()


def test_a_dataset_below_this_one_is_no_stray(orders: Orders) -> None:
    for name in ("nested/_dil/current.json", "nested/mine.parquet", "folder/stray.parquet"):
        path = orders.dataset / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    live = live_files(files, str(orders.dataset))

    found = untracked_files(replace(orders.spec, mode=PublishMode.REPLACE), live, files)

    assert [file.uri.rpartition("/")[2] for file in found] == ["stray.parquet"]


def test_what_lies_behind_a_link_is_no_stray(orders: Orders, tmp_path: Path) -> None:
    (orders.dataset / "deep").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for folder in (tmp_path / "elsewhere", orders.dataset / "deep"):
        (folder / "x.parquet").write_text("1")
    (orders.dataset / "link").symlink_to(tmp_path / "elsewhere")
    (orders.dataset / "again").symlink_to(orders.dataset / "deep")
    (tmp_path / "way").symlink_to(orders.folder)
    spec = replace(orders.spec, mode=PublishMode.REPLACE)
    live = live_files(files, str(orders.dataset))

    for final_dir in (spec.final_dir, f"{tmp_path}/way/lake"):
        base = Path(final_dir) / "shop" / "orders"
        known = [
            structs.replace(file, uri=f"{base.as_uri()}/{file.uri.rpartition('/')[2]}")
            for file in live
        ]
        found = untracked_files(replace(spec, final_dir=final_dir), known, files)
        assert [file.uri for file in found] == [f"{base.as_uri()}/deep/x.parquet"]


# Sweeping


def test_sweeping_deletes_a_runs_staging_and_may_be_repeated(tmp_path: Path) -> None:
    staged_file(tmp_path / "r1" / "u" / "1-aa", "part-0.parquet")

    assert delete_staging(files, str(tmp_path / "r1"))
    assert not (tmp_path / "r1").exists()
    assert delete_staging(files, str(tmp_path / "r1"))


def test_what_cannot_be_swept_now_is_left_for_later(tmp_path: Path) -> None:
    (tmp_path / "r1").write_text("no folder")

    assert not delete_staging(files, str(tmp_path / "r1"))


# A driver that was suspended and wakes up


class Suspended(LocalFilesystem):
    """The real filesystem; something happens once before or after one of its steps."""

    def __init__(self, name: str, happens: Callable[[], None], *, after: bool) -> None:
        real = getattr(self, name)

        def step(*args: object, **kinds: object) -> object:
            setattr(self, name, real)
            if not after:
                happens()
            done = real(*args, **kinds)
            if after:
                happens()
            return done

        setattr(self, name, step)


@pytest.mark.parametrize(
    ("name", "after"), [("put_if_absent", False), ("put_if_absent", True), ("delete_file", True)]
)
def test_a_driver_that_wakes_up_deletes_nothing_that_was_brought_back(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, name: str, *, after: bool
) -> None:
    replaced = live_files(files, str(orders.dataset))
    second = orders.commit("r2", "c.parquet")
    withdrawn = orders.dataset / "_dil" / "withdrawn" / "act"
    withdrawn.mkdir(parents=True)
    back = tuple(Move(shutil.copy(files.path_of(file.uri), withdrawn), file) for file in replaced)
    now = 1e9

    def finished_and_undone() -> None:
        nonlocal now
        now += 3600
        with orders.store() as store, leased(store) as lease:
            assert orders.publisher(store).finish_pending(lease) == second
            removes = tuple(move.target for move in second.moves)
            undo = replace(second, run_id="undo", moves=back, removes=removes, run=RunWork())
            orders.publisher(store).publish(lease, undo)

    monkeypatch.setattr("dil.publishing.files.time.time", lambda: now)
    with orders.store() as store:
        lease = store.acquire_lease("r2", lease_s=60)
        store.release_lease(lease)
        sleepy = Suspended(name, finished_and_undone, after=after)
        with pytest.raises(LeaseLostError):
            orders.publisher(store, sleepy).publish(lease, second)

    assert (
        orders.live() == orders.names() == sorted(file.uri.rpartition("/")[2] for file in replaced)
    )
