"""The archive of JVM classes: made by the first session, used when it is surely whole."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dil.execution.java import ClassArchive, Java

JAVA = Java("/jvm/17", "17.0.9")


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "spark-core.jar").write_bytes(b"1")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "dil"


def gone() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def part_of(options: tuple[str, ...]) -> Path:
    (given,) = [one for one in options if one.startswith("-XX:ArchiveClassesAtExit=")]
    return Path(given.partition("=")[2])


def used_by(options: tuple[str, ...]) -> Path | None:
    given = [one for one in options if one.startswith("-XX:SharedArchiveFile=")]
    return Path(given[0].partition("=")[2]) if given else None


def make_archive(cache: Path, jars: Path, java: Java = JAVA) -> Path:
    """Go through a first session whose JVM has ended; return the archive that the next one uses."""
    first = ClassArchive(cache, java, jars)
    part = part_of(first.jvm_options())
    part.write_bytes(b"classes")
    first.written_by(gone())
    found = used_by(ClassArchive(cache, java, jars).jvm_options())
    assert found is not None
    return found


def test_the_first_session_writes_and_the_next_one_uses_it(cache: Path, jars: Path) -> None:
    archive = make_archive(cache, jars)

    assert archive.read_bytes() == b"classes"
    assert [one.name for one in cache.iterdir()] == [archive.name]


def test_an_archive_that_is_used_is_never_required(cache: Path, jars: Path) -> None:
    make_archive(cache, jars)

    assert "-Xshare:auto" in ClassArchive(cache, JAVA, jars).jvm_options()


@pytest.mark.parametrize(
    ("version", "is_used"), [("17.0.9", True), ("21.0.13", False), ("25", True)]
)
def test_a_java_that_refuses_its_own_archive_gets_none(cache, jars, version, is_used) -> None:
    options = ClassArchive(cache, Java("/jvm", version), jars).jvm_options()

    assert bool(options) is is_used
    assert cache.exists() is is_used


def test_an_archive_is_not_used_while_its_writer_lives(cache: Path, jars: Path) -> None:
    first = ClassArchive(cache, JAVA, jars)
    part_of(first.jvm_options()).write_bytes(b"half of the cla")
    first.written_by(os.getpid())

    options = ClassArchive(cache, JAVA, jars).jvm_options()

    assert used_by(options) is None
    assert part_of(options) != part_of(first.jvm_options())


def test_a_writer_that_wrote_nothing_leaves_no_archive(cache: Path, jars: Path) -> None:
    first = ClassArchive(cache, JAVA, jars)
    first.jvm_options()
    first.written_by(gone())

    assert used_by(ClassArchive(cache, JAVA, jars).jvm_options()) is None
    assert list(cache.iterdir()) == []


def test_two_first_sessions_at_once_write_to_different_places(cache: Path, jars: Path) -> None:
    parts = {part_of(ClassArchive(cache, JAVA, jars).jvm_options()) for _ in range(2)}

    assert len(parts) == 2


def test_a_session_that_uses_the_archive_notes_no_writer(cache: Path, jars: Path) -> None:
    make_archive(cache, jars)
    again = ClassArchive(cache, JAVA, jars)
    again.jvm_options()

    again.written_by(os.getpid())

    assert len(list(cache.iterdir())) == 1


def test_another_java_or_another_spark_has_an_archive_of_its_own(cache: Path, jars: Path) -> None:
    first = make_archive(cache, jars)
    newer = make_archive(cache, jars, Java("/jvm/17", "17.0.10"))
    (jars / "spark-core.jar").write_bytes(b"22")

    assert newer != first
    assert used_by(ClassArchive(cache, JAVA, jars).jvm_options()) is None


def test_a_cache_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path, jars: Path) -> None:
    (tmp_path / "file").write_text("")

    assert ClassArchive(tmp_path / "file" / "dil", JAVA, jars).jvm_options() == ()


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    cache: Path, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = ClassArchive(cache, JAVA, jars)
    archive.jvm_options()

    def refuse(*args: object, **kinds: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    archive.written_by(gone())


def test_a_damaged_note_of_a_writer_stops_nobody(cache: Path, jars: Path) -> None:
    first = ClassArchive(cache, JAVA, jars)
    part = part_of(first.jvm_options())
    part.write_bytes(b"classes")
    part.with_suffix(".pid").write_text("no number")

    assert used_by(ClassArchive(cache, JAVA, jars).jvm_options()) is None
    assert list(cache.iterdir()) == []


def test_what_was_not_used_for_a_month_goes_when_a_new_archive_is_made(
    cache: Path, jars: Path
) -> None:
    archive = make_archive(cache, jars)
    left = [cache / "spark-classes-0a.1b.part", cache / "spark-classes-0a.1b.pid"]
    for path in (archive, *left):
        path.touch()
        os.utime(path, (0, 0))

    ClassArchive(cache, JAVA, jars).jvm_options()
    assert all(path.exists() for path in (archive, *left))
    os.utime(left[0])
    ClassArchive(cache, Java("/jvm/25", "25.0.1"), jars).jvm_options()

    assert [path.exists() for path in (archive, *left)] == [True, True, False]
