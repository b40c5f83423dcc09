"""Google Cloud Storage as a place of files: what is its own, and what it says when it fails.

The service is the fake of tests/servers/gcs.py, which says what of it is as documented.
"""

import json
import os
import threading

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from dil.errors import WriteError
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.gcs import GcsBucket
from tests.integration.gcs_places import Bucket, use
from tests.servers.gcs import GcsServer
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.programs import free_port

MIB = 1 << 20


@pytest.fixture
def gcs():
    with GcsServer() as server:
        yield server


@pytest.fixture
def bucket(gcs, monkeypatch):
    use(gcs.url, monkeypatch)
    return Bucket(gcs)


@pytest.fixture
def proxy(gcs, bucket, monkeypatch):
    with MeddlingProxy(gcs.port) as meddling:
        use(f"http://127.0.0.1:{meddling.port}", monkeypatch)
        yield meddling


def write(files, path, data):
    with files.open_output(path) as stream:
        stream.write(data)


def read(files, path):
    with files.open_input(path) as stream:
        return stream.read()


def test_a_large_file_goes_up_in_parts_and_appears_when_it_is_closed(bucket, gcs):
    files, data = ObjectFilesystem(part_bytes=5 * MIB), os.urandom(12 * MIB + 7)
    with files.open_output(f"{bucket.uri}/a") as stream:
        for start in range(0, len(data), MIB):
            stream.write(memoryview(data)[start : start + MIB])
        assert bucket.keys() == []
    assert bucket.objects() == {"a": data}
    assert sum(each.startswith("PUT /upload/") for each in gcs.requests) == 3
    assert gcs.sessions == {}


def test_a_file_that_was_never_closed_is_not_there(bucket):
    stream = ObjectFilesystem(part_bytes=5 * MIB).open_output(f"{bucket.uri}/a")
    stream.write(bytes(6 * MIB))
    del stream
    assert bucket.keys() == []


def test_a_file_whose_writing_failed_does_not_appear_and_its_parts_are_freed(bucket, gcs):
    stream = ObjectFilesystem(part_bytes=5 * MIB).open_output(f"{bucket.uri}/a")
    stream.write(bytes(6 * MIB))
    gcs.denied = frozenset({"PUT"})
    with pytest.raises(WriteError, match="answers 403"):
        stream.write(bytes(6 * MIB))
    gcs.denied = frozenset()
    stream.close()
    assert bucket.keys() == []
    assert gcs.sessions == {}


@pytest.mark.parametrize("total", [b"-5242879/*", b"/12582919"], ids=["a part", "the last part"])
def test_a_part_whose_answer_was_lost_is_not_sent_twice(total, bucket, proxy):
    files, data = ObjectFilesystem(part_bytes=5 * MIB), os.urandom(12 * MIB + 7)
    with files.open_output(f"{bucket.uri}/a") as stream:
        proxy.cut_answer_after(total)
        stream.write(data)
    assert proxy.cuts == 1
    assert bucket.objects() == {"a": data}


def test_a_service_that_is_not_able_for_a_moment_is_asked_again(bucket, gcs):
    gcs.refusals = [503, 429]
    files, data = ObjectFilesystem(part_bytes=5 * MIB), os.urandom(6 * MIB)
    with files.open_output(f"{bucket.uri}/a") as stream:
        stream.write(data)
        gcs.refusals = [503]
    assert bucket.objects() == {"a": data}


def test_a_large_file_is_moved_in_steps(bucket, gcs):
    gcs.rewrite_bytes = MIB
    files, data = ObjectFilesystem(), os.urandom(3 * MIB)
    write(files, f"{bucket.uri}/a", data)
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"b": data}


class Killed(BaseException):
    """Stands for SIGKILL."""


def test_a_move_cut_off_between_copy_and_deletion_is_finished_by_the_next(bucket, monkeypatch):
    files = ObjectFilesystem()
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


def test_a_move_that_another_driver_finished_meanwhile_changes_nothing(bucket, proxy):
    files, other = ObjectFilesystem(), ObjectFilesystem()
    write(files, f"{bucket.uri}/a", b"1")
    proxy.act_before(b"/rewriteTo/", lambda: other.move(f"{bucket.uri}/a", f"{bucket.uri}/b"))
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert proxy.failures == []
    assert bucket.objects() == {"b": b"1"}


def test_a_move_never_takes_the_place_of_what_came_since_it_looked(bucket, gcs, proxy):
    files = ObjectFilesystem()
    write(files, f"{bucket.uri}/a", b"1")
    proxy.act_before(b"/rewriteTo/", lambda: gcs.put(bucket.name, "b", b"other"))
    with pytest.raises(WriteError, match="exists already"):
        files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"a": b"1", "b": b"other"}


def test_a_source_that_changed_since_it_was_looked_at_is_not_moved(bucket, gcs, proxy):
    files = ObjectFilesystem()
    write(files, f"{bucket.uri}/a", b"1")
    proxy.act_before(b"/rewriteTo/", lambda: gcs.put(bucket.name, "a", b"other"))
    with pytest.raises(WriteError, match="changed while it was copied"):
        files.replace(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"a": b"other"}


def test_a_copy_whose_answer_was_lost_is_known_as_ours(bucket, proxy):
    files = ObjectFilesystem()
    write(files, f"{bucket.uri}/a", b"1")
    proxy.cut_answer_after(b"/rewriteTo/")
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert proxy.cuts == 1
    assert bucket.objects() == {"b": b"1"}


def test_a_body_that_breaks_off_is_read_again(bucket, proxy):
    data = os.urandom(8 * MIB)
    files = ObjectFilesystem()
    files.put(f"{bucket.uri}/a", data)
    proxy.cut_after(3 * MIB, times=2)
    assert read(files, f"{bucket.uri}/a") == data
    assert proxy.cuts == 2


def test_an_object_that_changes_while_it_is_read_is_an_error(bucket):
    files = ObjectFilesystem()
    files.put(f"{bucket.uri}/a", bytes(6 * MIB))
    with files.open_input(f"{bucket.uri}/a") as stream:
        stream.read(10)
        files.put(f"{bucket.uri}/a", bytes(7 * MIB))
        stream.seek(5 * MIB)
        with pytest.raises(WriteError, match="another object took its place"):
            stream.read(10)


def test_more_objects_than_a_page_holds_are_listed_and_deleted(bucket, gcs):
    gcs.page = 2
    files = ObjectFilesystem()
    paths = [f"{bucket.uri}/in/{number}/x" for number in range(7)]
    for path in paths:
        files.put(path, b"1")
    assert [each.path for each in files.files(f"{bucket.uri}/in")] == paths
    assert files.folders(f"{bucket.uri}/in") == list("0123456")
    files.delete_tree(f"{bucket.uri}/in")
    assert bucket.keys() == []


def test_objects_are_deleted_by_threads_that_keep_no_signal_waiting(bucket, monkeypatch):
    files, daemons, delete = ObjectFilesystem(), [], GcsBucket.delete
    for number in range(4):
        files.put(f"{bucket.uri}/in/{number}", b"1")

    def noted(self, key):
        daemons.append(threading.current_thread().daemon)
        delete(self, key)

    monkeypatch.setattr(GcsBucket, "delete", noted)
    files.delete_tree(f"{bucket.uri}/in")
    assert daemons == [True] * 4
    assert bucket.keys() == []


def test_markers_that_consoles_make_of_folders_are_no_files(bucket, gcs):
    gcs.put(bucket.name, "in/", b"")
    files = ObjectFilesystem()
    assert list(files.files(f"{bucket.uri}/in")) == []
    assert not files.is_folder(f"{bucket.uri}/in")
    assert files.folders(bucket.uri) == ["in"]
    files.delete_tree(f"{bucket.uri}/in")
    assert bucket.keys() == []


@pytest.mark.parametrize("path", ["/lake/a", "file:///lake/a", "gs:/", "gs://_dil", "s3://b/a"])
def test_what_is_no_place_on_the_service_is_not_there(path, bucket):
    files = ObjectFilesystem()
    assert not files.exists(path)
    assert list(files.files(path)) == []
    with pytest.raises(FileNotFoundError):
        files.open_input(path)


def test_files_are_not_moved_from_one_bucket_to_another(bucket, gcs):
    files, other = ObjectFilesystem(), Bucket(gcs)
    files.put(f"{bucket.uri}/a", b"1")
    with pytest.raises(WriteError, match="not in the same bucket"):
        files.move(f"{bucket.uri}/a", f"{other.uri}/a")


# What does not work


def test_a_bucket_that_is_not_there_is_named(bucket):
    files = ObjectFilesystem()
    for act in (
        lambda: files.exists("gs://nowhere-at-all/lake"),
        lambda: files.put("gs://nowhere-at-all/lake/a", b""),
        lambda: files.put_if_absent("gs://nowhere-at-all/lake/a", b""),
        lambda: list(files.files("gs://nowhere-at-all/lake")),
        lambda: write(files, "gs://nowhere-at-all/lake/a", b""),
    ):
        with pytest.raises(WriteError) as caught:
            act()
        assert "there is no such bucket" in caught.value.message
        assert "gs://nowhere-at-all/lake" in caught.value.message


def test_rights_that_are_missing_are_named(bucket, gcs):
    gcs.denied = frozenset({"POST"})
    files = ObjectFilesystem()
    assert not files.is_folder(f"{bucket.uri}/lake")
    with pytest.raises(WriteError) as caught:
        files.put(f"{bucket.uri}/lake/a", b"")
    assert "answers 403 (dil@example.com does not have" in caught.value.message
    assert "Storage Object User" in caught.value.fix


def test_no_credentials_at_all_are_told(bucket, monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().put(f"{bucket.uri}/a", b"")
    assert "there are no credentials" in caught.value.message
    assert "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.fix


@pytest.fixture
def account(gcs, bucket, monkeypatch, tmp_path):
    """Let the service ask for a token, which goes to the key of a file."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    about = {
        "type": "service_account", "client_email": "dil@example.com", "private_key_id": "1",
        "private_key": pem.decode(), "token_uri": f"{gcs.url}/token",
    }  # fmt: skip
    path = tmp_path / "account.json"
    path.write_text(json.dumps(about))
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setattr("dil.storage.objects.gcs_requests._HOST", gcs.url)
    gcs.tokens = frozenset({"secret-token"})
    return path


def test_a_service_account_s_file_is_enough(account, bucket, gcs):
    gcs.grant = "secret-token"
    write(ObjectFilesystem(), f"{bucket.uri}/a", b"1")
    assert bucket.objects() == {"a": b"1"}


def test_a_token_that_is_refused_is_told_without_it(account, bucket, gcs):
    gcs.grant = "stale-token"
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().put(f"{bucket.uri}/a", b"")
    assert "answers 401 (Invalid Credentials)" in caught.value.message
    assert "stale-token" not in str(caught.value)


def test_a_token_server_that_is_not_there_is_told(account, bucket, monkeypatch):
    about = json.loads(account.read_text())
    about["token_uri"] = f"http://127.0.0.1:{free_port()}/token"
    account.write_text(json.dumps(about))
    monkeypatch.setattr("dil.storage.objects.gcs_requests._PAUSES_S", (0.0,))
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().put(f"{bucket.uri}/a", b"")
    assert "no token can be had for" in caught.value.message


def test_an_account_that_gets_no_token_is_told(account, bucket, gcs):
    gcs.grant = None
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().put(f"{bucket.uri}/a", b"")
    assert "invalid_grant" in caught.value.message
    assert "GOOGLE_APPLICATION_CREDENTIALS" in caught.value.fix


def test_a_service_that_is_not_there_is_told_with_its_address(monkeypatch):
    url = f"http://127.0.0.1:{free_port()}"
    use(url, monkeypatch)
    monkeypatch.setattr("dil.storage.objects.gcs_requests._PAUSES_S", (0.0,))
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().exists("gs://lake/a")
    assert f"{url} cannot be reached" in caught.value.message
    assert "STORAGE_EMULATOR_HOST" in caught.value.fix
