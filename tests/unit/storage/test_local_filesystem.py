import os
import resource
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from dil.errors import WriteError
from dil.storage import LocalFilesystem

files = LocalFilesystem()


def put(path, text):
    with files.open_output(str(path)) as stream:
        stream.write(text)


def test_a_moved_file_is_at_its_target_only(tmp_path):
    put(tmp_path / "a", b"1")
    files.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").read_bytes() == b"1"


def test_moving_again_after_the_source_is_gone_changes_nothing(tmp_path):
    put(tmp_path / "a", b"1")
    for _ in range(2):
        files.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == b"1"


def test_a_move_cut_off_between_link_and_unlink_is_finished_by_the_next(tmp_path):
    put(tmp_path / "a", b"1")
    os.link(tmp_path / "a", tmp_path / "b")
    files.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert not (tmp_path / "a").exists()


def test_a_move_never_overwrites_another_file(tmp_path):
    put(tmp_path / "a", b"mine")
    put(tmp_path / "b", b"theirs")
    with pytest.raises(WriteError) as caught:
        files.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert str(tmp_path / "b") in caught.value.message
    assert (tmp_path / "b").read_bytes() == b"theirs"
    assert (tmp_path / "a").exists()


def test_a_move_of_nothing_to_nothing_fails(tmp_path):
    with pytest.raises(WriteError):
        files.move(str(tmp_path / "a"), str(tmp_path / "b"))


def test_a_moved_file_gets_the_permission_bits_asked_for(tmp_path):
    put(tmp_path / "a", b"1")
    files.move(str(tmp_path / "a"), str(tmp_path / "b"), mode=0o640)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o640


def test_only_folders_that_did_not_exist_get_the_permission_bits(tmp_path):
    (tmp_path / "old").mkdir(mode=0o700)
    files.make_folder(str(tmp_path / "old" / "new" / "newer"), mode=0o750)
    modes = [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("old", "old/new")]
    assert modes == [0o700, 0o750]


def test_put_if_absent_lets_the_first_writer_win(tmp_path):
    path = str(tmp_path / "deep" / "one")
    assert files.put_if_absent(path, b"first")
    assert not files.put_if_absent(path, b"second")
    assert (tmp_path / "deep" / "one").read_bytes() == b"first"
    assert [each.path for each in files.files(str(tmp_path))] == [path]


class ListeningFilesystem(LocalFilesystem):
    """Remembers which folders were made durable."""

    def __init__(self):
        self.synced = set()

    def sync_folders(self, paths):
        paths = list(paths)
        self.synced.update(paths)
        super().sync_folders(paths)


def test_folders_that_a_write_creates_are_as_durable_as_its_file(tmp_path):
    listening = ListeningFilesystem()
    listening.put_if_absent(str(tmp_path / "a" / "b" / "one"), b"1")
    assert listening.synced == {str(tmp_path / each) for each in ("", "a", "a/b")}
    listening.synced.clear()
    listening.put(str(tmp_path / "c" / "one"), b"1")
    assert listening.synced == {str(tmp_path / each) for each in ("", "c")}
    listening.synced.clear()
    listening.open_output(str(tmp_path / "d" / "one")).close()
    assert listening.synced == {str(tmp_path)}


def test_of_many_writers_of_one_file_exactly_one_is_told_that_it_wrote(tmp_path):
    path = str(tmp_path / "new" / "one")
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda n: files.put_if_absent(path, b"%d" % n), range(40)))
    assert told.count(True) == 1
    assert Path(path).read_bytes() == b"%d" % told.index(True)
    assert [each.path for each in files.files(str(tmp_path))] == [path]


def test_a_write_that_fails_leaves_nothing_beside_its_target(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError):
        files.put(str(tmp_path / "folder"), b"1")
    with limited_file_size(1000), pytest.raises(WriteError):
        files.put_if_absent(str(tmp_path / "large"), bytes(5000))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder"]


@contextmanager
def limited_file_size(size):
    """Let writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_put_replaces_the_whole_content(tmp_path):
    path = str(tmp_path / "one")
    files.put(path, b"a long text")
    files.put(path, b"short")
    assert (tmp_path / "one").read_bytes() == b"short"


def test_an_output_stream_refuses_an_existing_file(tmp_path):
    put(tmp_path / "a", b"1")
    with pytest.raises(WriteError):
        files.open_output(str(tmp_path / "a"))


def test_a_full_disk_reads_as_one():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(WriteError) as caught:
        files.put("/dev/full/x", b"1")
    assert caught.value.code == "DIL-WRITE"


def test_deleting_what_is_not_there_is_fine(tmp_path):
    files.delete_file(str(tmp_path / "a"))
    files.delete_tree(str(tmp_path / "b"))
    assert files.folders(str(tmp_path / "b")) == []
    assert list(files.files(str(tmp_path / "b"))) == []


@pytest.mark.parametrize(
    "name",
    ["plain", "with space", "ünïcode", "per%20cent", "a#b?c", "day=2020-01-01", ".hidden", "a:b",
     "~x", "..."],
)  # fmt: skip
def test_a_path_survives_its_uri(tmp_path, name):
    path = str(tmp_path / name)
    assert files.path_of(files.uri(path)) == path
    assert files.uri(path) == Path(path).as_uri()


@pytest.mark.parametrize("path", ["/a//b", "/a/./b", "/a/.", "/a/", "//a", "/", "/a/../b", "/a\n"])
def test_a_path_has_one_uri_however_it_is_written(path):
    assert files.uri(path) == Path(path).as_uri()


def test_a_link_is_told_from_what_it_leads_to(tmp_path):
    put(tmp_path / "a", b"1")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "folder").symlink_to(tmp_path)
    found = [files.is_link(str(tmp_path / name)) for name in ("a", "b", "folder", "folder/a", "c")]
    assert found == [False, True, True, False, False]


def test_a_uri_of_another_store_is_no_path_here(tmp_path):
    with pytest.raises(WriteError) as caught:
        files.path_of("s3://bucket/lake/part-0.parquet")
    assert "data.publisher.final.dir" in caught.value.fix


@pytest.mark.parametrize("name", ["ü" * 128, f"{'x' * 200}/" * 21])
def test_a_path_that_no_file_can_have_is_refused(tmp_path, name):
    files.check_path(f"{tmp_path}/{'ü' * 127}/x")
    with pytest.raises(WriteError):
        files.check_path(f"{tmp_path}/{name}")


def test_a_folder_is_deleted_only_when_it_is_empty(tmp_path):
    put(tmp_path / "full" / "a", b"1")
    (tmp_path / "empty").mkdir()
    for name in ("full", "empty", "missing"):
        files.delete_empty_folder(str(tmp_path / name))
    assert files.folders(str(tmp_path)) == ["full"]


def test_replace_moves_over_an_older_file_and_does_nothing_the_second_time(tmp_path):
    filesystem = LocalFilesystem()
    source, target = tmp_path / "new", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    filesystem.replace(str(source), str(target), mode=0o604)
    filesystem.replace(str(source), str(target), mode=0o600)
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o604


def test_replace_refuses_a_folder_and_what_is_nowhere(tmp_path):
    filesystem = LocalFilesystem()
    (tmp_path / "new").write_text("new")
    (tmp_path / "folder").mkdir()
    for source, target in (("new", "folder"), ("none", "nowhere"), ("none", "folder")):
        with pytest.raises(WriteError):
            filesystem.replace(str(tmp_path / source), str(tmp_path / target))


def test_links_are_followed_to_folders_and_out_of_paths(tmp_path):
    filesystem = LocalFilesystem()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    assert filesystem.is_folder(str(tmp_path / "link"))
    assert not filesystem.is_folder(str(tmp_path / "file"))
    assert filesystem.real_path(str(tmp_path / "link" / "x")) == str(tmp_path.resolve() / "real/x")
