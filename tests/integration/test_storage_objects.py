"""What every object store does alike, beside the rules of every filesystem (test_storage_seam).

S3 is moto, Azure is azurite; Google Cloud Storage is the fake of tests/servers/gcs.py, which says
what of it is as documented.
"""

import os

import pytest

from tests.integration.object_stores import STORES
from tests.integration.places import PLACES, open_place, read, refused, write
from tests.servers.meddling_proxy import MeddlingProxy

MIB = 1 << 20
PLACELESS = {
    "S3": ["/lake/a", "file:///lake/a", "s3:/", "s3://_dil", "s3:"],
    "Azure": ["/lake/a", "file:///lake/a", "abfss://c@", "s3://lake/a"],
    "Google": ["/lake/a", "file:///lake/a", "gs:/", "gs://_dil", "s3://b/a"],
}


@pytest.fixture(params=STORES)
def store(request, monkeypatch):
    server = request.getfixturevalue(PLACES[request.param][0])
    return STORES[request.param](server, open_place(request.param, request, monkeypatch))


@pytest.fixture
def bucket(store):
    return store.bucket


@pytest.fixture
def files(store):
    return store.filesystem()


@pytest.fixture
def proxy(store, monkeypatch):
    with MeddlingProxy(store.server.port) as meddling:
        store.reach(meddling.port, monkeypatch)
        yield meddling


def test_a_large_file_goes_up_in_parts_and_appears_when_it_is_closed(store, bucket):
    files, data = store.filesystem(part_bytes=5 * MIB), os.urandom(12 * MIB + 7)
    with files.open_output(f"{bucket.uri}/a") as stream:
        for start in range(0, len(data), MIB):
            stream.write(memoryview(data)[start : start + MIB])
        assert bucket.keys() == []
    assert bucket.objects() == {"a": data}
    store.check_parts("a", [5 * MIB, 5 * MIB, 2 * MIB + 7])


def test_a_file_that_was_never_closed_is_not_there(store, bucket):
    files = store.filesystem(part_bytes=5 * MIB)
    stream = files.open_output(f"{bucket.uri}/staging/a")
    stream.write(bytes(6 * MIB))
    del stream
    assert bucket.keys() == []
    assert not files.is_folder(f"{bucket.uri}/staging")


# Moves


class Killed(BaseException):
    """Stands for SIGKILL."""


def test_a_move_cut_off_between_copy_and_deletion_is_finished_by_the_next(
    files, bucket, monkeypatch
):
    write(files, f"{bucket.uri}/a", b"1")

    def die(path):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "delete_file", die)
        with pytest.raises(Killed):
            files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"a": b"1", "b": b"1"}
    for _ in range(2):
        files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
        assert bucket.objects() == {"b": b"1"}


def test_a_move_that_another_driver_finished_meanwhile_changes_nothing(store, files, bucket, proxy):
    other = store.filesystem()
    write(files, f"{bucket.uri}/a", b"1")
    proxy.act_before(store.copying, lambda: other.move(f"{bucket.uri}/a", f"{bucket.uri}/b"))
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert proxy.failures == []
    assert bucket.objects() == {"b": b"1"}


# S3 copies over what came: few services know a condition for the target of a copy.
@pytest.mark.parametrize("store", ["Azure", "Google"], indirect=True)
def test_a_move_never_takes_the_place_of_what_came_since_it_looked(store, files, bucket, proxy):
    write(files, f"{bucket.uri}/a", b"1")
    proxy.act_before(store.copying, lambda: bucket.write("b", b"other"))
    refused(lambda: files.move(f"{bucket.uri}/a", f"{bucket.uri}/b"), "exists already")
    assert bucket.objects() == {"a": b"1", "b": b"other"}


# Moto obeys no condition on the source of a copy.
@pytest.mark.parametrize("store", ["Azure", "Google"], indirect=True)
def test_a_source_that_changed_since_it_was_looked_at_is_not_moved(store, files, bucket, proxy):
    write(files, f"{bucket.uri}/a", b"1")
    proxy.act_before(store.copying, lambda: bucket.write("a", b"other"))
    refused(
        lambda: files.replace(f"{bucket.uri}/a", f"{bucket.uri}/b"), "changed while it was copied"
    )
    assert bucket.objects() == {"a": b"other"}


def test_a_copy_whose_answer_was_lost_is_known_as_ours(store, files, bucket, proxy):
    write(files, f"{bucket.uri}/a", b"1")
    proxy.cut_answer_after(store.copying)
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert proxy.cuts == 1
    assert bucket.objects() == {"b": b"1"}


def test_a_first_writer_whose_answer_was_lost_finds_its_content(store, files, bucket, proxy):
    files.put_if_absent(f"{bucket.uri}/other", b"")
    proxy.cut_answer_after(store.creating)
    files.put_if_absent(f"{bucket.uri}/a", b"mine")
    assert proxy.cuts == 1
    assert read(files, f"{bucket.uri}/a") == b"mine"


# Reading


def test_a_body_that_breaks_off_is_read_on(files, bucket, proxy):
    data = os.urandom(8 * MIB)
    files.put(f"{bucket.uri}/a", data)
    proxy.cut_after(3 * MIB, times=2)
    assert read(files, f"{bucket.uri}/a") == data
    assert proxy.cuts == 2


def test_an_object_that_changes_while_it_is_read_is_an_error(files, bucket):
    files.put(f"{bucket.uri}/a", bytes(6 * MIB))
    with files.open_input(f"{bucket.uri}/a") as stream:
        stream.read(10)
        files.put(f"{bucket.uri}/a", bytes(7 * MIB))
        stream.seek(5 * MIB)
        refused(lambda: stream.read(10), "the object was replaced while it was read")


# Listings and folders


def test_more_objects_than_a_page_holds_are_listed_and_deleted(store, files, bucket, monkeypatch):
    store.make_pages_small(monkeypatch)
    paths = [f"{bucket.uri}/in/{number}/x" for number in range(7)]
    for path in paths:
        files.put(path, b"1")
    assert [each.path for each in files.files(f"{bucket.uri}/in")] == paths
    assert files.folders(f"{bucket.uri}/in") == list("0123456")
    files.delete_tree(f"{bucket.uri}/in")
    assert bucket.keys() == []


# Hadoop's tools make other markers on Azure, which test_storage_azure is about.
@pytest.mark.parametrize(
    ("store", "is_folder"), [("S3", True), ("Google", False)], indirect=["store"]
)
def test_markers_that_consoles_make_of_folders_are_no_files(is_folder, files, bucket):
    bucket.write("in/", b"")
    assert list(files.files(f"{bucket.uri}/in")) == []
    assert files.is_folder(f"{bucket.uri}/in") is is_folder
    assert files.folders(bucket.uri) == ["in"]
    files.delete_tree(f"{bucket.uri}/in")
    assert bucket.keys() == []


@pytest.mark.parametrize(
    ("store", "path"),
    [(store, path) for store, paths in PLACELESS.items() for path in paths],
    indirect=["store"],
)
def test_what_is_no_place_of_the_store_is_not_there(path, files):
    assert not files.exists(path)
    assert list(files.files(path)) == []
    with pytest.raises(FileNotFoundError):
        files.open_input(path)


def test_a_whole_bucket_is_a_folder(files, bucket):
    assert not files.exists(bucket.uri)
    files.put(f"{bucket.uri}/a/b", b"1")
    assert files.exists(bucket.uri)
    assert files.is_folder(bucket.uri)
    assert files.folders(bucket.uri) == ["a"]
    assert [each.path for each in files.files(bucket.uri)] == [f"{bucket.uri}/a/b"]
    with pytest.raises(FileNotFoundError):
        files.open_input(bucket.uri)


# What does not work


def test_a_key_that_is_too_long_is_told_before_anything_is_sent(store, files, bucket):
    files.put(f"{bucket.uri}/{store.longest_name}", b"1")
    refused(lambda: files.is_folder(f"{bucket.uri}/{store.longest_name}x"), "1,024 bytes")


def test_a_bucket_that_is_not_there_is_named(store, files):
    for act in (
        lambda: files.exists(store.nowhere),
        lambda: files.put(f"{store.nowhere}/a", b""),
        lambda: files.put_if_absent(f"{store.nowhere}/a", b""),
        lambda: list(files.files(store.nowhere)),
        lambda: files.folders(store.nowhere),
        lambda: files.open_input(f"{store.nowhere}/a"),
        lambda: write(files, f"{store.nowhere}/a", b""),
    ):
        error = refused(act)
        assert store.no_bucket in error.message
        assert store.nowhere in error.message


def test_a_service_that_is_not_there_is_told_with_its_address(store, files, bucket, monkeypatch):
    address = store.lose(monkeypatch)
    error = refused(lambda: files.exists(f"{bucket.uri}/a"))
    assert f"{address} cannot be reached" in error.message
    assert store.reached_by in error.fix
