"""S3 as a place of files: what is its own, and what it says when it does not work."""

import os

import boto3
import pytest

from dil.errors import WriteError
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import S3
from tests.integration.places import refused, write
from tests.integration.s3_places import Bucket, opened, use
from tests.servers.http_server import HttpServer, Reply
from tests.servers.s3 import KEY, REGION, SECRET, MotoServer, RcloneServer

MIB = 1 << 20


@pytest.fixture
def bucket(moto, monkeypatch):
    return opened(moto, monkeypatch)


def test_a_file_that_was_never_closed_is_not_there_and_its_parts_go_with_its_folder(bucket):
    files = ObjectFilesystem(S3(), part_bytes=5 * MIB)
    stream = files.open_output(f"{bucket.uri}/staging/run/a")
    stream.write(bytes(6 * MIB))
    other = files.open_output(f"{bucket.uri}/staging/running/b")
    other.write(bytes(6 * MIB))
    assert bucket.keys() == []
    files.delete_tree(f"{bucket.uri}/staging/run")
    assert [each["Key"] for each in bucket.uploads()] == ["staging/running/b"]
    with pytest.raises(WriteError):
        stream.close()
    assert bucket.keys() == []


def test_a_file_whose_writing_failed_does_not_appear_when_it_is_closed(bucket):
    stream = ObjectFilesystem(S3(), part_bytes=5 * MIB).open_output(f"{bucket.uri}/a")
    stream.write(bytes(6 * MIB))
    (upload,) = bucket.uploads()
    bucket.client.abort_multipart_upload(Bucket=bucket.name, Key="a", UploadId=upload["UploadId"])
    with pytest.raises(WriteError):
        stream.write(bytes(6 * MIB))
    stream.close()
    assert bucket.keys() == []


def test_a_large_file_is_moved_by_parts(bucket):
    files, data = ObjectFilesystem(S3(copy_bytes=5 * MIB)), os.urandom(11 * MIB)
    write(files, f"{bucket.uri}/a", data)
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"b": data}
    assert bucket.uploads() == []


def test_rclone_accepts_a_file_in_parts(monkeypatch):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket, data = Bucket(server), os.urandom(6 * MIB)
        write(ObjectFilesystem(S3(), part_bytes=5 * MIB), f"{bucket.uri}/a", data)
        assert bucket.objects() == {"a": data}


# What does not work


@pytest.mark.parametrize(
    ("tag", "body", "what"),
    [('"1"', b"0123456789", "ignores Range"), ('"2"', b"56789", "was replaced")],
    ids=["Range", "If-Match"],
)
def test_a_service_that_ignores_headers_gives_no_other_bytes_after_a_broken_answer(
    tag, body, what, monkeypatch
):
    head = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 10\r\n\r\n'
    with HttpServer() as server:
        use(server.url, monkeypatch)
        server.script(
            "/bucket/a", Reply(raw=head + b"01234"), Reply(body, headers=(("ETag", tag),))
        )
        with ObjectFilesystem(S3()).open_input("s3://bucket/a") as stream:
            refused(stream.read, what)
    assert dict(server.requests[-1].headers)["Range"] == "bytes=5-"


def test_a_service_that_ignores_conditions_is_refused_before_anything_relies_on_it(monkeypatch):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        files = ObjectFilesystem(S3())
        error = refused(lambda: files.put_if_absent(f"{bucket.uri}/lake/_dil/owner.json", b"{}"))
        assert "does not obey If-None-Match" in error.message
        assert bucket.keys() == []


def test_credentials_that_are_wrong_are_told(monkeypatch):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        error = refused(lambda: list(ObjectFilesystem(S3()).files(f"{bucket.uri}/lake")))
    assert "SignatureDoesNotMatch" in error.message
    assert "AWS_SECRET_ACCESS_KEY" in error.fix
    assert "another" not in error.message


def test_no_credentials_at_all_are_told(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = refused(lambda: ObjectFilesystem(S3()).put(f"{bucket.uri}/a", b""))
    assert "there are no credentials" in error.message


def test_rights_that_are_missing_are_named(monkeypatch):
    # The server lets so many requests pass that set the stage: bucket, user, key, policy.
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "4")
    with MotoServer() as server:
        bucket = Bucket(server)
        iam = boto3.client(
            "iam", endpoint_url=server.url, region_name=REGION, aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )  # fmt: skip
        iam.create_user(UserName="reader")
        key = iam.create_access_key(UserName="reader")["AccessKey"]
        allow = '{"Effect":"Allow","Action":["s3:ListBucket","s3:GetObject"],"Resource":"*"}'
        policy = f'{{"Version":"2012-10-17","Statement":[{allow}]}}'
        iam.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=policy)
        use(server.url, monkeypatch)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        files = ObjectFilesystem(S3())
        assert not files.is_folder(f"{bucket.uri}/lake")
        error = refused(lambda: files.put(f"{bucket.uri}/lake/a", b""))
    assert "AccessDenied" in error.message
    assert "s3:PutObject" in error.fix
