"""S3 as a place of files: what is its own, and what it says when it does not work."""

import os

import boto3
import pytest

from dil.errors import WriteError
from dil.storage.s3.bucket import S3Bucket
from dil.storage.s3.filesystem import S3Filesystem
from tests.integration.s3_places import Bucket, use
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.programs import free_port
from tests.servers.s3 import KEY, REGION, SECRET, MotoServer, RcloneServer

MIB = 1 << 20


@pytest.fixture(scope="module")
def moto():
    with MotoServer() as server:
        yield server


@pytest.fixture
def bucket(moto, monkeypatch):
    use(moto.url, monkeypatch)
    return Bucket(moto)


@pytest.fixture
def proxy(moto, bucket, monkeypatch):
    with MeddlingProxy(moto.port) as meddling:
        use(f"http://127.0.0.1:{meddling.port}", monkeypatch)
        yield meddling


def write(files, path, data):
    with files.open_output(path) as stream:
        stream.write(data)


def read(files, path):
    with files.open_input(path) as stream:
        return stream.read()


def uploads(bucket):
    return bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])


def test_a_large_file_goes_up_in_parts_and_appears_when_it_is_closed(bucket):
    files, data = S3Filesystem(part_bytes=5 * MIB), os.urandom(12 * MIB + 7)
    with files.open_output(f"{bucket.uri}/a") as stream:
        for start in range(0, len(data), MIB):
            stream.write(memoryview(data)[start : start + MIB])
        assert bucket.keys() == []
    assert bucket.objects() == {"a": data}
    assert bucket.client.head_object(Bucket=bucket.name, Key="a")["ETag"].endswith('-3"')
    assert uploads(bucket) == []


def test_a_file_that_was_never_closed_is_not_there_and_its_parts_go_with_its_folder(bucket):
    files = S3Filesystem(part_bytes=5 * MIB)
    stream = files.open_output(f"{bucket.uri}/staging/run/a")
    stream.write(bytes(6 * MIB))
    other = files.open_output(f"{bucket.uri}/staging/running/b")
    other.write(bytes(6 * MIB))
    assert bucket.keys() == []
    files.delete_tree(f"{bucket.uri}/staging/run")
    assert [each["Key"] for each in uploads(bucket)] == ["staging/running/b"]
    with pytest.raises(WriteError):
        stream.close()
    assert bucket.keys() == []


def test_a_file_whose_writing_failed_does_not_appear_when_it_is_closed(bucket):
    stream = S3Filesystem(part_bytes=5 * MIB).open_output(f"{bucket.uri}/a")
    stream.write(bytes(6 * MIB))
    (upload,) = uploads(bucket)
    bucket.client.abort_multipart_upload(Bucket=bucket.name, Key="a", UploadId=upload["UploadId"])
    with pytest.raises(WriteError):
        stream.write(bytes(6 * MIB))
    stream.close()
    assert bucket.keys() == []


def test_a_large_file_is_moved_by_parts(bucket):
    files, data = S3Filesystem(copy_bytes=5 * MIB), os.urandom(11 * MIB)
    write(files, f"{bucket.uri}/a", data)
    files.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"b": data}
    assert uploads(bucket) == []


class Killed(BaseException):
    """Stands for SIGKILL."""


def test_a_move_cut_off_between_copy_and_deletion_is_finished_by_the_next(bucket, monkeypatch):
    files = S3Filesystem()
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
    write(S3Filesystem(), f"{bucket.uri}/a", b"1")
    other = S3Filesystem()
    proxy.act_before(
        b"x-amz-copy-source:", lambda: other.move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    )
    S3Filesystem().move(f"{bucket.uri}/a", f"{bucket.uri}/b")
    assert bucket.objects() == {"b": b"1"}


def test_a_first_writer_whose_answer_was_lost_finds_its_content(bucket, proxy):
    files = S3Filesystem()
    files.put_if_absent(f"{bucket.uri}/other", b"")
    proxy.cut_answer_after(b"If-None-Match")
    files.put_if_absent(f"{bucket.uri}/a", b"mine")
    assert proxy.cuts == 1
    assert read(files, f"{bucket.uri}/a") == b"mine"


def test_a_body_that_breaks_off_is_read_on(bucket, proxy):
    data = os.urandom(8 * MIB)
    files = S3Filesystem()
    files.put(f"{bucket.uri}/a", data)
    proxy.cut_after(3 * MIB, times=2)
    assert read(files, f"{bucket.uri}/a") == data
    assert proxy.cuts == 2


def test_an_object_that_changes_while_it_is_read_is_an_error(bucket):
    files = S3Filesystem()
    files.put(f"{bucket.uri}/a", bytes(4 * MIB))
    with files.open_input(f"{bucket.uri}/a") as stream:
        stream.read(10)
        files.put(f"{bucket.uri}/a", bytes(5 * MIB))
        stream.seek(3 * MIB)
        with pytest.raises(WriteError, match="another object took its place"):
            stream.read(10)


def test_more_objects_than_a_page_holds_are_listed_and_deleted(bucket, monkeypatch):
    page = S3Bucket._page
    small = lambda *at, **options: page(*at, **{"MaxKeys": 2, **options})  # noqa: E731
    monkeypatch.setattr(S3Bucket, "_page", small)
    monkeypatch.setattr("dil.storage.s3.bucket._PER_DELETE", 3)
    files = S3Filesystem()
    paths = [f"{bucket.uri}/in/{number}/x" for number in range(7)]
    for path in paths:
        files.put(path, b"1")
    assert [each.path for each in files.files(f"{bucket.uri}/in")] == paths
    assert files.folders(f"{bucket.uri}/in") == list("0123456")
    files.delete_tree(f"{bucket.uri}/in")
    assert bucket.keys() == []


def test_markers_that_consoles_make_of_folders_are_no_files(bucket):
    bucket.client.put_object(Bucket=bucket.name, Key="in/", Body=b"")
    files = S3Filesystem()
    assert list(files.files(f"{bucket.uri}/in")) == []
    assert files.folders(bucket.uri) == ["in"]
    files.delete_tree(f"{bucket.uri}/in")
    assert bucket.keys() == []


@pytest.mark.parametrize("path", ["/lake/a", "file:///lake/a", "s3:/", "s3://_dil", "s3:"])
def test_what_is_no_place_on_s3_is_not_there(path, bucket):
    files = S3Filesystem()
    assert not files.exists(path)
    assert list(files.files(path)) == []
    with pytest.raises(FileNotFoundError):
        files.open_input(path)


def test_a_whole_bucket_is_a_folder(bucket):
    files = S3Filesystem()
    assert not files.exists(bucket.uri)
    files.put(f"{bucket.uri}/a/b", b"1")
    assert files.exists(bucket.uri)
    assert files.is_folder(bucket.uri)
    assert files.folders(bucket.uri) == ["a"]
    assert [each.path for each in files.files(bucket.uri)] == [f"{bucket.uri}/a/b"]
    with pytest.raises(FileNotFoundError):
        files.open_input(bucket.uri)


# What does not work


def test_a_key_that_is_too_long_is_told_before_anything_is_sent(bucket):
    files, name = S3Filesystem(), "ü" * 512
    files.put(f"{bucket.uri}/{name}", b"1")
    with pytest.raises(WriteError, match="1,024 bytes"):
        files.is_folder(f"{bucket.uri}/{name}x")


def test_a_service_that_ignores_conditions_is_refused_before_anything_relies_on_it(monkeypatch):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        files = S3Filesystem()
        with pytest.raises(WriteError) as caught:
            files.put_if_absent(f"{bucket.uri}/lake/_dil/owner.json", b"{}")
        assert "does not obey If-None-Match" in caught.value.message
        assert bucket.keys() == []


def test_a_bucket_that_is_not_there_is_named(bucket):
    files = S3Filesystem()
    for act in (
        lambda: files.exists("s3://nowhere-at-all/lake"),
        lambda: files.put("s3://nowhere-at-all/lake/a", b""),
        lambda: list(files.files("s3://nowhere-at-all/lake")),
        lambda: write(files, "s3://nowhere-at-all/lake/a", b""),
    ):
        with pytest.raises(WriteError) as caught:
            act()
        assert "there is no such bucket" in caught.value.message
        assert "s3://nowhere-at-all/lake" in caught.value.message


def test_credentials_that_are_wrong_are_told(monkeypatch):
    with RcloneServer() as server:
        use(server.url, monkeypatch)
        bucket = Bucket(server)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(WriteError) as caught:
            list(S3Filesystem().files(f"{bucket.uri}/lake"))
    assert "SignatureDoesNotMatch" in caught.value.message
    assert "AWS_SECRET_ACCESS_KEY" in caught.value.fix
    assert "another" not in caught.value.message


def test_no_credentials_at_all_are_told(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(WriteError) as caught:
        S3Filesystem().put(f"{bucket.uri}/a", b"")
    assert "there are no credentials" in caught.value.message


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
        files = S3Filesystem()
        assert not files.is_folder(f"{bucket.uri}/lake")
        with pytest.raises(WriteError) as caught:
            files.put(f"{bucket.uri}/lake/a", b"")
    assert "AccessDenied" in caught.value.message
    assert "s3:PutObject" in caught.value.fix


def test_a_service_that_is_not_there_is_told_with_its_address(monkeypatch):
    url = f"http://127.0.0.1:{free_port()}"
    use(url, monkeypatch)
    with pytest.raises(WriteError) as caught:
        S3Filesystem().exists("s3://lake/a")
    assert f"{url} cannot be reached" in caught.value.message
    assert "AWS_ENDPOINT_URL" in caught.value.fix
