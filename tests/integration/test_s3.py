"""S3 by real requests: a real server over files, and moto's for what only that one knows.

See docs/object-stores.md.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connectors.files.remote import RemoteFileSession
from dil.operator.source_preview import preview_source
from tests.integration.local_jobs import NOW, FileJob, error_of
from tests.jobs import ROOT
from tests.servers.http_server import HttpServer, Reply
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.s3 import KEY, REGION, SECRET, MotoServer, RcloneServer, S3Server

ROWS = [{"id": number, "text": f"row {number} " * 20} for number in range(40_000)]
LARGE = json.dumps(ROWS).encode()
BUCKET = "lake"


@pytest.fixture(autouse=True)
def _no_account_of_this_machine(monkeypatch, tmp_path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                 "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION",
                 "AWS_DEFAULT_REGION"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setitem(RemoteFileSession.__init__.__kwdefaults__, "sleep", lambda seconds: None)


@pytest.fixture(scope="module")
def rclone() -> Iterator[S3Server]:
    with RcloneServer() as server:
        server.bucket(
            BUCKET,
            **{
                "in/a.json": b'[{"id":1},{"id":2}]', "in/a.json.bak": b'[{"id":9}]',
                "in/b.json": b'[{"id":3}]', "in/c d,e+f%20.csv": b"x", "other": b"x",
                "large.json": LARGE,
            },
        )  # fmt: skip
        yield server


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with MotoServer() as server:
        server.bucket(BUCKET, **{"in/a.json": b'[{"id":1}]', "large.json": LARGE})
        yield server


def properties(url: str, prefix: str, **more: str) -> dict[str, str]:
    return {
        "source__class": "com.linkedin.cdi.source.S3SourceV2",
        "ms__source__uri": f"s3://{BUCKET}/{prefix}",
        "ms__source__s3__parameters": json.dumps({"endpoint": url, "region": REGION}),
        "source__conn__username": KEY,
        "source__conn__password": SECRET,
        **more,
    }


def listing(folder: Path, url: str, prefix: str, **more: str) -> FileJob:
    return FileJob(folder, **properties(url, prefix, **more))


def reading(folder: Path, url: str, prefix: str, **more: str) -> FileJob:
    return listing(folder, url, prefix, **{"ms__extractor__target__file__name": "x", **more})


def names(job: FileJob) -> list[str]:
    assert error_free(job.run())
    return [next(iter(row.values())) for row in job.rows()]


def error_free(report) -> bool:
    assert report.failures == ()
    return True


def ids(job: FileJob) -> list[int]:
    return [row["id"] for row in job.rows()]


def test_a_list_has_the_keys_of_the_prefix_in_order_over_all_pages(rclone, tmp_path):
    wanted = ["in/a.json", "in/a.json.bak", "in/b.json", "in/c d,e+f%20.csv"]
    assert names(listing(tmp_path / "1", rclone.url, "in/")) == wanted
    job = listing(tmp_path / "2", rclone.url, "in/", ms__s3__list__max__keys="1")
    assert names(job) == wanted
    schema = '[{"columnName":"key","dataType":{"type":"string"}}]'
    job = listing(tmp_path / "3", rclone.url, "in/", ms__extractor__class="csv",
                  ms__output__schema=schema)  # fmt: skip
    assert names(job) == wanted


def test_the_pattern_has_to_match_the_whole_key(rclone, tmp_path):
    job = listing(tmp_path, rclone.url, "in/", ms__source__files__pattern="in/.[.]json")
    assert names(job) == ["in/a.json", "in/b.json"]


def test_an_empty_list_is_no_row_and_fails_where_rows_are_asked_for(rclone, tmp_path):
    job = listing(tmp_path, rclone.url, "none/")
    assert names(job) == []
    report = job.run(ms__work__unit__min__records="1", state__store__enabled="false")
    assert "ms.work.unit.min.records asks for 1" in error_of(report)


@pytest.mark.parametrize(
    ("prefix", "is_warned"), [("in/*.json", True), ("none/", False), ("in/a*b", True)]
)
def test_a_wildcard_in_the_prefix_is_a_letter_and_the_pattern_in_its_place_is_named(
    rclone, tmp_path, caplog, prefix, is_warned
):
    job = listing(tmp_path, rclone.url, prefix, ms__source__files__once="path")
    job.run()
    pattern = "ms.source.files.pattern=" + prefix.replace(".", "[.]").replace("*", ".*")
    assert (pattern in caplog.text) is is_warned


def test_the_key_that_equals_the_prefix_is_read_though_others_begin_with_it(rclone, tmp_path):
    job = reading(tmp_path, rclone.url, "in/a.json")
    assert error_free(job.run())
    assert sorted(ids(job)) == [1, 2]


def test_an_empty_object_that_stands_for_a_folder_is_not_read(moto, tmp_path):
    moto.bucket("marked", **{"in/": b"", "in/a.json": b'[{"id":1}]'})
    uri = {"ms__source__uri": "s3://marked/in/"}
    assert reading(tmp_path / "one", moto.url, "", **uri).run().rows == 1
    each = {"ms__source__files__once": "path", "ms__watermark": "", **uri}
    report = reading(tmp_path / "each", moto.url, "", **each).run()
    assert (report.units.planned, report.rows) == (1, 1)


def test_of_several_keys_the_first_is_read_and_that_is_told(rclone, tmp_path, caplog):
    job = reading(tmp_path, rclone.url, "in/", ms__source__files__pattern=".*[.]json")
    assert error_free(job.run())
    assert sorted(ids(job)) == [1, 2]
    assert "there are several files; the first is read: in/a.json" in caplog.text


def test_no_key_is_a_failure_and_no_watermark_moves(rclone, tmp_path):
    job = reading(tmp_path, rclone.url, "in/z.json")
    assert error_of(job.run()) == "DIL-SRC: s3://lake/in/z.json: no object"
    assert error_of(job.run()) == "DIL-SRC: s3://lake/in/z.json: no object"


def test_objects_that_were_written_just_now_are_left_for_later(rclone, tmp_path, caplog):
    settle = {"ms__source__files__settle": "P1D"}
    assert names(listing(tmp_path / "1", rclone.url, "in/", **settle)) == []
    assert "files left for later by ms.source.files.settle: 4" in caplog.text
    error = error_of(reading(tmp_path / "2", rclone.url, "in/b.json", **settle).run())
    assert "in/b.json was written to just now (ms.source.files.settle)" in error


@pytest.mark.parametrize("prefix", ["in/", "in/a.json"])
def test_paging_rules_have_no_effect(rclone, tmp_path, prefix):
    """Rule G30: there are no pages, and nothing comes twice."""
    make = listing if prefix.endswith("/") else reading
    job = make(tmp_path, rclone.url, prefix, ms__pagination='{"initialvalues":[0,2]}')
    report = job.run()
    assert error_free(report)
    assert len(job.rows()) == (4 if prefix.endswith("/") else 2)


def test_every_object_of_a_unit_is_one_work_unit(rclone, tmp_path):
    watermark = [
        {"name": "s", "type": "datetime", "range": {"from": "2024-12-31", "to": "P0D"}},
        {"name": "u", "type": "unit", "units": [{"key": "in/a.json"}, {"key": "in/b.json"}]},
    ]
    job = reading(tmp_path, rclone.url, "{{key}}", ms__watermark=json.dumps(watermark))
    assert error_free(job.run())
    assert sorted(ids(job)) == [1, 2, 3]


def test_a_body_that_is_cut_goes_on_where_it_was_cut(rclone, tmp_path, caplog):
    with MeddlingProxy(rclone.port) as proxy:
        proxy.cut_after(3_000_000, times=1)
        job = reading(tmp_path, f"http://127.0.0.1:{proxy.port}", "large.json")
        assert error_free(job.run())
        assert proxy.cuts == 1
    assert "going on from byte" in caplog.text
    assert ids(job) == list(range(len(ROWS)))


def test_a_body_that_is_always_cut_is_a_failure_and_the_next_run_has_every_row(rclone, tmp_path):
    with MeddlingProxy(rclone.port) as proxy:
        proxy.cut_after(200_000, times=1_000)
        job = reading(tmp_path / "job", f"http://127.0.0.1:{proxy.port}", "large.json")
        error = error_of(job.run())
        assert error.startswith("DIL-SRC-TRANSIENT: s3://lake/large.json: ")
        assert "given up after 5 tries at byte" in error
        assert job.rows() == []
        proxy.cut_after(0, times=0)
        assert error_free(job.run())
    assert ids(job) == list(range(len(ROWS)))


@pytest.mark.parametrize("kind", ["rclone", "moto"])
def test_an_object_that_changes_while_it_is_read_is_a_failure(kind, tmp_path, request):
    server = request.getfixturevalue(kind)
    client = server.client()
    client.put_object(Bucket=BUCKET, Key="changing.json", Body=LARGE)
    with MeddlingProxy(server.port) as proxy:
        # The rest is asked for with Range; one byte of the same length is another one then.
        proxy.act_before(
            b"Range: bytes=",
            lambda: client.put_object(
                Bucket=BUCKET, Key="changing.json", Body=LARGE.replace(b"row 7 ", b"row X ")
            ),
        )
        proxy.cut_after(3_000_000, times=1)
        job = reading(tmp_path, f"http://127.0.0.1:{proxy.port}", "changing.json")
        error = error_of(job.run())
        assert job.rows() == []
        assert error_free(job.run())
        assert proxy.failures == []
    assert error == (
        "DIL-SRC-CONTRACT: s3://lake/changing.json: the file changed while it was read: another"
        " object took its place"
    )
    assert ids(job) == list(range(len(ROWS)))


def test_an_object_that_vanishes_after_it_was_listed_is_a_failure(rclone, tmp_path):
    client = rclone.client()
    client.put_object(Bucket=BUCKET, Key="fleeting.json", Body=b"[]")
    with MeddlingProxy(rclone.port) as proxy:
        proxy.act_before(
            b"GET /lake/fleeting.json",
            lambda: client.delete_object(Bucket=BUCKET, Key="fleeting.json"),
        )
        job = reading(tmp_path, f"http://127.0.0.1:{proxy.port}", "fleeting.json")
        error = error_of(job.run())
        assert proxy.failures == []
    assert error == (
        "DIL-SRC-CONTRACT: s3://lake/fleeting.json: the object vanished after it was listed"
    )


def test_bytes_that_are_not_those_of_the_etag_are_a_failure(rclone, tmp_path):
    """The server's file is changed behind its back, in the middle, while it is sent."""
    client = rclone.client()
    client.put_object(Bucket=BUCKET, Key="damaged.json", Body=b'[{"id":1}]')
    with _Falsifier(rclone.port, b'[{"id":1}]', b'[{"id":7}]') as proxy:
        job = reading(tmp_path, f"http://127.0.0.1:{proxy.port}", "damaged.json")
        assert "the bytes do not have the MD5" in error_of(job.run())
        assert job.rows() == []


class _Falsifier(MeddlingProxy):
    def __init__(self, port: int, true: bytes, false: bytes) -> None:
        super().__init__(port)
        self._words = (true, false)

    def answer(self, data: bytes) -> bytes:
        return data.replace(*self._words)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"source__conn__password": "wrong-one"}, "DIL-SRC-AUTH: s3://lake/in/a.json: the service"
         " answers SignatureDoesNotMatch"),
        ({"source__conn__username": "AKIANOBODY"}, "DIL-SRC-AUTH: s3://lake/in/a.json: the service"
         " answers InvalidAccessKeyId"),
        ({"source__conn__username": "", "source__conn__password": ""},
         "DIL-SRC: s3://lake/in/a.json: the service answers UnsupportedAlgorithm"),
        ({"ms__source__uri": "s3://nobucket/in"}, "DIL-SRC: s3://nobucket/in: the service answers"
         " NoSuchBucket"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_was_refused_and_no_secret(rclone, tmp_path, change, error):
    report = reading(tmp_path, rclone.url, "in/a.json", **change).run()
    assert error_of(report).startswith(error)
    assert error_of(report).endswith(f" at {rclone.url}")
    for secret in (SECRET, "wrong-one", "AKIANOBODY"):
        assert secret not in str(report)


@pytest.mark.parametrize(
    ("later", "code"),
    [
        ("<html>Sign in</html>", "DIL-SRC-TRANSIENT"),
        ("", "DIL-SRC-CONTRACT"),
        (
            "<ListBucketResult><Contents><Key>in/0</Key><Size>1</Size></Contents><Contents><Key>in/a"
            "</Key><Size>1</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>",
            "DIL-SRC-CONTRACT",
        ),
        (
            "<ListBucketResult><Contents><Key>in/b</Key><Size>1</Size></Contents><Contents><Key>in/b"
            "</Key><Size>1</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>",
            "DIL-SRC-CONTRACT",
        ),
    ],
    ids=["page of a proxy", "first page again", "page that overlaps", "key twice on a page"],
)
def test_a_list_is_never_shorter_or_longer_than_that_of_the_service(
    later, code, tmp_path, monkeypatch
):
    monkeypatch.setattr("random.random", lambda: 0.0)  # The client does not wait.
    page = (
        "<ListBucketResult><Contents><Key>in/a</Key><Size>1</Size></Contents><IsTruncated>true"
        "</IsTruncated><NextContinuationToken>{}</NextContinuationToken></ListBucketResult>"
    )
    with HttpServer() as server:
        replies = (Reply(text.encode()) for text in (page.format(1), later or page.format(2)))
        server.script(f"/{BUCKET}", *replies)
        job = listing(tmp_path, server.url, "in/")
        assert error_of(job.run()).startswith(code)
    assert job.rows() == []


def test_a_dead_server_is_a_failure_that_may_pass(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    error = error_of(reading(tmp_path, url, "in/a.json").run())
    assert error == f"DIL-SRC-TRANSIENT: s3://lake/in/a.json: connection refused at {url}"


def test_a_host_that_is_none_is_told(tmp_path):
    error = error_of(reading(tmp_path, "http://s3.dil.invalid", "in/a.json").run())
    assert error == (
        "DIL-SRC-TRANSIENT: s3://lake/in/a.json: host name not found at http://s3.dil.invalid"
    )


def test_the_endpoint_and_the_keys_of_the_environment_are_taken_when_asked_for(
    rclone, tmp_path, monkeypatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", rclone.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    without = {"source__conn__username": "", "source__conn__password": ""}
    unsigned = {"ms__source__s3__parameters": json.dumps({"region": REGION})}
    error = error_of(reading(tmp_path / "1", "", "in/a.json", **without, **unsigned).run())
    assert "the service answers UnsupportedAlgorithm" in error  # what is not signed
    chain = {"ms__source__s3__parameters": '{"region":"eu-test-1","credentials":"default"}'}
    job = reading(tmp_path / "2", "", "in/a.json", **without, **chain)
    assert error_free(job.run())
    assert sorted(ids(job)) == [1, 2]


def test_proxies_of_the_environment_are_not_used(rclone, tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert error_free(reading(tmp_path, rclone.url, "in/a.json").run())


def test_a_preview_shows_the_first_rows_and_leaves_nothing(rclone, tmp_path):
    job = reading(tmp_path, rclone.url, "in/a.json")
    seen = preview_source(job.job(), now_ms=NOW, rows=1)
    assert seen.rows.to_pylist()[0] == {"id": 1}
    assert not (tmp_path / "lake").exists()


def test_reading_the_job_file_does_not_load_the_client_library(tmp_path):
    job = reading(tmp_path, "http://127.0.0.1:9", "in/a.json")
    job.job()
    code = (
        "import sys; from dil import config;"
        f"config.load({str(tmp_path / 'files.conf')!r}, environ={{}});"
        "sys.exit('botocore' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
