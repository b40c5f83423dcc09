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
from dil.storage.objects.services import GoogleAndAzure
from tests.integration.gcs_places import Bucket, opened, use
from tests.integration.places import refused, write
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.programs import free_port

MIB = 1 << 20


@pytest.fixture
def bucket(gcs, monkeypatch):
    return opened(gcs, monkeypatch)


@pytest.fixture
def proxy(gcs, bucket, monkeypatch):
    with MeddlingProxy(gcs.port) as meddling:
        use(f"http://127.0.0.1:{meddling.port}", monkeypatch)
        yield meddling


def test_a_file_whose_writing_failed_does_not_appear_and_its_parts_are_freed(bucket, gcs):
    stream = ObjectFilesystem(GoogleAndAzure(), part_bytes=5 * MIB).open_output(f"{bucket.uri}/a")
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
    files, data = ObjectFilesystem(GoogleAndAzure(), part_bytes=5 * MIB), os.urandom(12 * MIB + 7)
    with files.open_output(f"{bucket.uri}/a") as stream:
        proxy.cut_answer_after(total)
        stream.write(data)
    assert proxy.cuts == 1
    assert bucket.objects() == {"a": data}


def test_a_service_that_is_not_able_for_a_moment_is_asked_again(bucket, gcs):
    gcs.refusals = [503, 429]
    files, data = ObjectFilesystem(GoogleAndAzure(), part_bytes=5 * MIB), os.urandom(6 * MIB)
    with files.open_output(f"{bucket.uri}/a") as stream:
        stream.write(data)
        gcs.refusals = [503]
    assert bucket.objects() == {"a": data}


def test_a_large_file_is_moved_in_steps(bucket, gcs):
    gcs.rewrite_bytes = MIB
    files, data = ObjectFilesystem(GoogleAndAzure()), os.urandom(3 * MIB)
    write(files, f"{bucket.uri}/a", data)
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"b": data}


def test_objects_are_deleted_by_threads_that_keep_no_signal_waiting(bucket, monkeypatch):
    files, daemons, delete = ObjectFilesystem(GoogleAndAzure()), [], GcsBucket.delete
    for number in range(4):
        files.put(f"{bucket.uri}/in/{number}", b"1")

    def noted(self, key):
        daemons.append(threading.current_thread().daemon)
        delete(self, key)

    monkeypatch.setattr(GcsBucket, "delete", noted)
    files.delete_tree(f"{bucket.uri}/in")
    assert daemons == [True] * 4
    assert bucket.keys() == []


def test_files_are_not_moved_from_one_bucket_to_another(bucket, gcs):
    files, other = ObjectFilesystem(GoogleAndAzure()), Bucket(gcs)
    files.put(f"{bucket.uri}/a", b"1")
    with pytest.raises(WriteError, match="not in the same bucket"):
        files.move(f"{bucket.uri}/a", f"{other.uri}/a")


# What does not work


def test_rights_that_are_missing_are_named(bucket, gcs):
    gcs.denied = frozenset({"POST"})
    files = ObjectFilesystem(GoogleAndAzure())
    assert not files.is_folder(f"{bucket.uri}/lake")
    error = refused(lambda: files.put(f"{bucket.uri}/lake/a", b""))
    assert "answers 403 (dil@example.com does not have" in error.message
    assert "Storage Object User" in error.fix


def test_no_credentials_at_all_are_told(bucket, monkeypatch):
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    error = refused(lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{bucket.uri}/a", b""))
    assert "there are no credentials" in error.message
    assert "GOOGLE_APPLICATION_CREDENTIALS" in error.fix


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
    write(ObjectFilesystem(GoogleAndAzure()), f"{bucket.uri}/a", b"1")
    assert bucket.objects() == {"a": b"1"}


def test_a_token_that_is_refused_is_told_without_it(account, bucket, gcs):
    gcs.grant = "stale-token"
    error = refused(lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{bucket.uri}/a", b""))
    assert "answers 401 (Invalid Credentials)" in error.message
    assert "stale-token" not in str(error)


def test_a_token_server_that_is_not_there_is_told(account, bucket, monkeypatch):
    about = json.loads(account.read_text())
    about["token_uri"] = f"http://127.0.0.1:{free_port()}/token"
    account.write_text(json.dumps(about))
    monkeypatch.setattr("dil.storage.objects.gcs_requests._PAUSES_S", (0.0,))
    error = refused(lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{bucket.uri}/a", b""))
    assert "the server that issues tokens for" in error.message


def test_an_account_that_gets_no_token_is_told(account, bucket, gcs):
    gcs.grant = None
    error = refused(lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{bucket.uri}/a", b""))
    assert "invalid_grant" in error.message
    assert "GOOGLE_APPLICATION_CREDENTIALS" in error.fix
