"""Plain files published to a bucket several at a time: the same content, whatever comes between."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading

import pytest

from dil.errors import WriteError
from dil.model.dataset import Commit, Intent, Move, PublishedFile
from dil.model.job import PublishingSpec
from dil.publishing.destination import destination_for
from dil.publishing.manifest import live_files
from dil.storage import Filesystem
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import S3
from tests.integration.s3_places import Bucket, opened
from tests.servers.s3 import S3Server

FILES = 24


@pytest.fixture
def bucket(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    return opened(moto, monkeypatch)


def spec_of(bucket: Bucket) -> PublishingSpec:
    return PublishingSpec(final_dir=f"{bucket.uri}/lake", dataset_path="shop/orders")


def intent(bucket: Bucket, run: str, removes: tuple[PublishedFile, ...] = ()) -> Intent:
    """Stage files and return the intent that publishes them."""
    folder = f"{bucket.uri}/lake/shop/orders"
    moves = []
    for number in range(FILES):
        body = body_of(run, number)
        key = f"lake/_staging/{run}/{number}"
        bucket.write(key, body)
        target = PublishedFile(
            uri=f"{folder}/part-{run}-{number}.parquet",
            signature="s",
            rows=1,
            bytes=len(body),
            sha256=hashlib.sha256(body).hexdigest(),
            run_id=run,
        )
        moves.append(Move(f"{bucket.uri}/{key}", target))
    commit = Commit(run, "d", "dil/orders", tuple(moves), removes, "", 0, 0)
    return Intent(commit, 1, folder, 0 if run == "r1" else 1)


def body_of(run: str, number: int) -> bytes:
    return f"{run} {number}".encode()


def data(bucket: Bucket) -> dict[str, bytes]:
    """Return what is published by its name."""
    objects = bucket.objects("lake/shop/orders/part-")
    return {key.rpartition("/")[2]: body for key, body in objects.items()}


def expected(run: str) -> dict[str, bytes]:
    return {f"part-{run}-{number}.parquet": body_of(run, number) for number in range(FILES)}


def carry_out(bucket: Bucket, done: Intent, files: Filesystem | None = None) -> None:
    destination_for(spec_of(bucket), files or ObjectFilesystem(S3())).carry_out(done)


def listed(bucket: Bucket) -> set[str]:
    live = live_files(ObjectFilesystem(S3()), f"{bucket.uri}/lake/shop/orders")
    return {file.uri.rpartition("/")[2] for file in live}


def test_files_are_moved_and_taken_away_several_at_a_time(bucket: Bucket) -> None:
    together = threading.Barrier(ObjectFilesystem.parallel_requests)

    class Watched(ObjectFilesystem):
        def move(self, source: str, target: str, *, mode: int | None = None) -> None:
            together.wait(30)
            super().move(source, target, mode=mode)

    first = intent(bucket, "r1")
    carry_out(bucket, first, Watched(S3()))
    assert data(bucket) == expected("r1")
    assert listed(bucket) == expected("r1").keys()
    removed = tuple(move.target for move in first.commit.moves)
    carry_out(bucket, intent(bucket, "r2", removed))
    assert data(bucket) == expected("r2")
    assert listed(bucket) == expected("r2").keys()
    assert bucket.keys("lake/_staging") == []


def test_a_move_that_fails_stops_the_rest_and_is_told(bucket: Bucket) -> None:
    done = intent(bucket, "r1")
    foreign = "lake/shop/orders/part-r1-4.parquet"
    bucket.write(foreign, b"of another program")
    with pytest.raises(WriteError, match=r"part-r1-4\.parquet exists already"):
        carry_out(bucket, done)
    assert listed(bucket) == set()
    staged = {int(key.rpartition("/")[2]) for key in bucket.keys("lake/_staging")}
    assert 4 in staged
    moved = {name for name in data(bucket) if name != "part-r1-4.parquet"}
    assert moved == {f"part-r1-{each}.parquet" for each in set(range(FILES)) - staged}
    bucket.client.delete_object(Bucket=bucket.name, Key=foreign)
    carry_out(bucket, done)
    assert data(bucket) == expected("r1")
    assert listed(bucket) == expected("r1").keys()


class Deadly(ObjectFilesystem):
    """Kills the process before one of its copies or deletions; their number is from 0."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(S3())
        self._step = step
        self._left = number
        self._turn = threading.Lock()

    def _copied(self, *arguments: object, **options: object) -> bool:
        self._count("copy")
        return super()._copied(*arguments, **options)  # type: ignore[arg-type]

    def delete_file(self, path: str) -> None:
        self._count("deletion")
        super().delete_file(path)

    def _count(self, step: str) -> None:
        with self._turn:
            if step == self._step and not self._left:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= step == self._step


def die(spec: PublishingSpec, done: Intent, step: str, number: int) -> None:
    destination_for(spec, Deadly(step, number)).carry_out(done)


@pytest.mark.parametrize(
    ("step", "number"),
    [
        pytest.param("copy", 0, marks=pytest.mark.long),
        ("copy", FILES // 2),
        pytest.param("deletion", FILES // 2, marks=pytest.mark.long),
        ("deletion", FILES - 1),
        pytest.param("deletion", FILES + FILES // 2, marks=pytest.mark.long),
    ],
)
def test_a_publish_killed_between_moves_is_finished(bucket: Bucket, step: str, number: int) -> None:
    first = intent(bucket, "r1")
    carry_out(bucket, first)
    done = intent(bucket, "r2", tuple(move.target for move in first.commit.moves))
    process = multiprocessing.get_context("spawn").Process(
        target=die, args=(spec_of(bucket), done, step, number)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    # Deletions are of staged files until the last is moved, and then of those that were replaced.
    is_switched = number >= FILES
    assert listed(bucket) == expected("r2" if is_switched else "r1").keys()
    for _ in range(2):
        carry_out(bucket, done)
        assert data(bucket) == expected("r2")
        assert listed(bucket) == expected("r2").keys()
    assert bucket.keys("lake/_staging") == []
