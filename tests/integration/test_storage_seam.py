"""What every filesystem behind the seam does alike: this machine's, object stores and HDFS."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from dil.errors import WriteError
from dil.storage import filesystem_for
from tests.integration.places import PLACES, open_place, read, write


@pytest.fixture(params=["this machine", *PLACES])
def root(request, tmp_path, monkeypatch):
    """Return an empty folder."""
    if request.param == "this machine":
        return str(tmp_path)
    return f"{open_place(request.param, request, monkeypatch).uri}/some/folder"


@pytest.fixture
def files(root):
    return filesystem_for(root)


def test_what_is_written_is_read_and_listed(files, root):
    write(files, f"{root}/b", b"22")
    write(files, f"{root}/a b/ü%20+.parquet", b"1")
    files.put(f"{root}/c", b"")
    assert read(files, f"{root}/a b/ü%20+.parquet") == b"1"
    found = list(files.files(root))
    assert [(each.path, each.size) for each in found] == [
        (f"{root}/a b/ü%20+.parquet", 1),
        (f"{root}/b", 2),
        (f"{root}/c", 0),
    ]
    assert all(each.modified > 1_500_000_000_000 for each in found)
    assert files.folders(root) == ["a b"]


def test_a_path_and_its_uri_name_the_same_file(files, root):
    path = f"{root}/a b/ü%20+#?.parquet"
    assert files.path_of(files.uri(path)) == path
    assert files.uri(path).partition(":")[0] in {"file", "s3", "webhdfs", "abfss", "gs"}


def test_a_path_that_is_too_long_is_refused_before_anything_is_written(files, root):
    files.check_path(f"{root}/{'ü/' * 200}x")
    with pytest.raises(WriteError) as caught:
        files.check_path(f"{root}/{'ü' * 100}/{('x' * 200 + '/') * 50}")
    assert "data.publisher.final.dir" in caught.value.fix


def test_what_is_not_there_is_no_error(files, root):
    assert not files.exists(f"{root}/none")
    assert not files.is_folder(f"{root}/none")
    assert list(files.files(f"{root}/none")) == []
    assert files.folders(f"{root}/none") == []
    files.delete_file(f"{root}/none")
    files.delete_tree(f"{root}/none")
    files.delete_empty_folder(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        files.open_input(f"{root}/none")


def test_a_folder_is_no_file_and_a_file_is_no_folder(files, root):
    files.put(f"{root}/folder/file", b"1")
    assert files.exists(f"{root}/folder")
    assert files.is_folder(f"{root}/folder")
    assert not files.is_folder(f"{root}/folder/file")
    assert not files.exists(f"{root}/fold")


def test_a_name_that_begins_like_a_folder_is_not_in_it(files, root):
    files.put(f"{root}/day-1/x", b"1")
    files.put(f"{root}/day-10/x", b"1")
    files.put(f"{root}/day-1.json", b"1")
    files.delete_tree(f"{root}/day-1")
    left = [each.path.removeprefix(root) for each in files.files(root)]
    assert left == ["/day-1.json", "/day-10/x"]


def test_put_replaces_the_whole_file(files, root):
    files.put(f"{root}/a", b"long and old")
    files.put(f"{root}/a", b"new")
    assert read(files, f"{root}/a") == b"new"


def test_put_if_absent_lets_the_first_writer_win(files, root):
    assert files.put_if_absent(f"{root}/deep/one", b"first")
    assert not files.put_if_absent(f"{root}/deep/one", b"second")
    assert read(files, f"{root}/deep/one") == b"first"
    assert [each.path for each in files.files(root)] == [f"{root}/deep/one"]


def test_of_writers_that_race_exactly_one_is_told_that_it_was_first(files, root):
    def race(number):
        with ThreadPoolExecutor(8) as pool:
            offers = [f"writer {writer}".encode() for writer in range(8)]
            won = list(pool.map(lambda data: files.put_if_absent(f"{root}/{number}", data), offers))
        winners = [data for data, is_first in zip(offers, won, strict=True) if is_first]
        return winners == [read(files, f"{root}/{number}")]

    assert all(race(number) for number in range(10))


def test_a_moved_file_is_at_its_target_only_and_moving_again_changes_nothing(files, root):
    write(files, f"{root}/a", b"1")
    files.make_folder(f"{root}/to")
    for _ in range(2):
        files.move(f"{root}/a", f"{root}/to/b", mode=0o640)
    assert not files.exists(f"{root}/a")
    assert read(files, f"{root}/to/b") == b"1"


def test_a_move_never_overwrites_another_file_even_one_of_the_same_content(files, root):
    write(files, f"{root}/a", b"same")
    write(files, f"{root}/b", b"same")
    with pytest.raises(WriteError) as caught:
        files.move(f"{root}/a", f"{root}/b")
    assert f"{root}/b exists already" in caught.value.message
    assert files.exists(f"{root}/a")


def test_a_move_of_nothing_to_nothing_fails(files, root):
    with pytest.raises(WriteError):
        files.move(f"{root}/a", f"{root}/b")
    with pytest.raises(WriteError):
        files.replace(f"{root}/a", f"{root}/b")


def test_a_replacing_move_takes_the_place_and_replacing_again_changes_nothing(files, root):
    write(files, f"{root}/a", b"new")
    write(files, f"{root}/b", b"old")
    for _ in range(2):
        files.replace(f"{root}/a", f"{root}/b")
    assert read(files, f"{root}/b") == b"new"
    assert not files.exists(f"{root}/a")


def test_a_replacing_move_onto_a_folder_fails(files, root):
    write(files, f"{root}/a", b"1")
    write(files, f"{root}/folder/b", b"1")
    with pytest.raises(WriteError) as caught:
        files.replace(f"{root}/a", f"{root}/folder")
    assert "{" not in str(caught.value)
    assert files.exists(f"{root}/a")


def test_a_stream_is_read_from_anywhere(files, root):
    data = bytes(range(256)) * 20_000
    write(files, f"{root}/a", data)
    with files.open_input(f"{root}/a") as stream:
        assert stream.read(10) == data[:10]
        assert stream.seek(-5, 2) == len(data) - 5
        assert stream.read() == data[-5:]
        stream.seek(3_000_000)
        assert stream.read(1_500_000) == data[3_000_000:4_500_000]
        assert stream.tell() == 4_500_000


def test_a_filesystem_travels_to_tasks(files, root):
    files.put(f"{root}/a", b"1")
    assert read(pickle.loads(pickle.dumps(files)), f"{root}/a") == b"1"


def test_a_file_without_content_is_read_as_it_is(files, root):
    write(files, f"{root}/none", b"")
    with files.open_input(f"{root}/none") as stream:
        assert stream.read() == b""
