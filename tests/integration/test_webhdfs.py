"""HDFS over its REST interface, on a stated fake of it (tests/servers/webhdfs.py)."""

import os
import random
from datetime import UTC, datetime

import pytest

from connectors.hdfs.opening import open_store
from connectors.hdfs.place import HdfsSourcePath
from connectors.hdfs.session import FileSettings, FilesSession
from connectors.hdfs.webhdfs_store import WebHdfsStore
from dil import config
from dil.errors import (
    AuthenticationError,
    SourceContractError,
    SourceError,
    TransientSourceError,
)
from dil.spi.connector import RequestValues
from dil.storage.hdfs.place import found_place
from tests.jobs import write_job
from tests.servers.certificates import authority, server_context, server_of
from tests.servers.http_server import HttpServer, Reply
from tests.servers.webhdfs import WebHdfs


@pytest.fixture
def hdfs(tmp_path):
    folder = tmp_path / "hdfs"
    folder.mkdir()
    with WebHdfs(folder) as server:
        yield server


def put(hdfs, path, data):
    file = hdfs.file(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def opened(hdfs, uri, folder, **changes):
    changes = {"source.class": "hdfs", "ms.extractor.class": "text", **changes}
    path = write_job(folder, "", **{**changes, "ms.source.uri": uri})
    settings = FileSettings.of(config.load(path, environ={}).job)
    return FilesSession(settings, sleep=lambda seconds: None)


def answers(session):
    found, page = [], 0
    with session:
        while True:
            answer = session.fetch(RequestValues({}, {}, page))
            if answer.body is not None:
                with answer.body as body:
                    found.append((answer.location, body.read()))
            page += 1
            if not answer.has_more:
                return found


def test_files_are_read_from_data_nodes_in_path_order(hdfs, tmp_path):
    names = ["b.csv", "a/é %2B+&?.csv", "a/_temporary/x", "_SUCCESS", "a b.csv"]
    for name in names:
        put(hdfs, f"/in/{name}", name.encode())
    root = f"webhdfs://{hdfs.authority}"
    wanted = [("/in/a b.csv", b"a b.csv"), ("/in/a/é %2B+&?.csv", "a/é %2B+&?.csv".encode()),
              ("/in/b.csv", b"b.csv")]  # fmt: skip
    assert answers(opened(hdfs, f"{root}/in", tmp_path)) == [
        (f"{root}{path}", data) for path, data in wanted
    ]
    assert answers(opened(hdfs, f"{root}/in/b.csv", tmp_path)) == [(f"{root}/in/b.csv", b"b.csv")]


def test_paths_of_the_file_system_that_the_job_names_are_listed_as_paths(hdfs, tmp_path):
    put(hdfs, "/in/a.csv", b"x")
    base = {"source.filebased.fs.uri": f"webhdfs://{hdfs.authority}"}
    assert answers(opened(hdfs, "/in?RE=.*csv", tmp_path, **base)) == [("/in", b"/in/a.csv\n")]
    root = f"webhdfs://{hdfs.authority}"
    listed = answers(opened(hdfs, f"{root}/in?RE=/in/.*csv", tmp_path))
    assert listed == [(f"{root}/in", f"{root}/in/a.csv\n".encode())]


def test_a_cut_connection_goes_on_where_it_broke_off(hdfs, tmp_path):
    data = random.Random(1).randbytes(900_000)
    put(hdfs, "/in/a", data)
    hdfs.cuts = [250_000, 0, 300_000]
    ((_, found),) = answers(opened(hdfs, f"webhdfs://{hdfs.authority}/in", tmp_path))
    assert found == data
    assert hdfs.cuts == []


def test_a_connection_that_is_cut_again_and_again_is_an_error_that_may_pass(hdfs, tmp_path):
    put(hdfs, "/in/a", bytes(900_000))
    hdfs.cuts = [1_000] * 20
    with pytest.raises(TransientSourceError, match=r"/in/a: the data node broke off"):
        answers(opened(hdfs, f"webhdfs://{hdfs.authority}/in", tmp_path))


def test_a_file_that_another_one_replaced_is_not_mixed_with_it(hdfs, tmp_path):
    file = put(hdfs, "/in/a", bytes(500_000))
    session = opened(hdfs, f"webhdfs://{hdfs.authority}/in", tmp_path)
    body = session.fetch(RequestValues({}, {}, 0)).body
    body.read(1_000)
    state = file.stat()
    other = put(hdfs, "/other", bytes(500_000))
    os.utime(other, ns=(state.st_mtime_ns, state.st_mtime_ns))
    other.replace(file)
    with pytest.raises(SourceContractError, match="another file took its place"):
        body.read()
    body.close()
    session.close()


def test_the_user_is_told_to_hdfs_and_one_without_rights_is_refused(hdfs, tmp_path):
    put(hdfs, "/in/a", b"x")
    hdfs.users = frozenset({"lake"})
    uri = f"webhdfs://{hdfs.authority}/in"
    assert len(answers(opened(hdfs, uri, tmp_path, **{"source.conn.username": "lake"}))) == 1
    with pytest.raises(AuthenticationError, match=r"/in: permission denied"):
        answers(opened(hdfs, uri, tmp_path))


@pytest.mark.parametrize(
    ("refusal", "kind", "text"),
    [
        ((403, "StandbyException", "Operation READ is not supported"), TransientSourceError,
         "HTTP status 403, StandbyException: Operation READ is not supported"),
        ((500, "RuntimeException", "x"), TransientSourceError, "HTTP status 500"),
        ((401, "", ""), AuthenticationError, "HTTP status 401"),
        ((400, "IllegalArgumentException", "Invalid value"), SourceError, "HTTP status 400"),
        ((404, "FileNotFoundException", "gone"), SourceError, "there is no such file or folder"),
    ],
)  # fmt: skip
def test_what_the_name_node_says_is_told_in_our_words(hdfs, tmp_path, refusal, kind, text):
    put(hdfs, "/in/a", b"x")
    hdfs.refusals = [refusal]
    with pytest.raises(SourceError, match=text) as told:
        answers(opened(hdfs, f"webhdfs://{hdfs.authority}/in", tmp_path))
    assert type(told.value) is kind


def test_a_server_that_is_not_there_or_is_no_name_node_is_told(tmp_path, hdfs):
    with HttpServer() as server:
        server.script("/webhdfs/v1/in", Reply(b"<html>", content_type="text/html"))
        with pytest.raises(SourceError, match="does not speak WebHDFS"):
            answers(opened(hdfs, f"webhdfs://127.0.0.1:{server.port}/in", tmp_path))
        port = server.port
    with pytest.raises(TransientSourceError, match="cannot be reached"):
        answers(opened(hdfs, f"webhdfs://127.0.0.1:{port}/in", tmp_path))


def test_without_libhdfs_hdfs_is_read_by_webhdfs_at_the_usual_port(monkeypatch):
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    store = open_store(HdfsSourcePath("hdfs", "nn:8020", "/in", "hdfs://nn:8020"))
    assert isinstance(store, WebHdfsStore)
    assert store._base == "http://nn:9870/webhdfs/v1"
    assert store.shown("/in") == "hdfs://nn:8020/in"
    for place in (HdfsSourcePath("hdfs", "", "/in"), HdfsSourcePath("viewfs", "lake", "/in")):
        with pytest.raises(SourceError, match="needs libhdfs, which is not there"):
            open_store(place)


def test_times_are_those_of_hdfs_in_milliseconds(hdfs):
    file = put(hdfs, "/in/a", b"abc")
    moment = datetime(2024, 2, 29, 12, 0, 0, 123_000, UTC)
    os.utime(file, (moment.timestamp(), moment.timestamp()))
    store = WebHdfsStore([f"http://{hdfs.authority}"], "", "")
    found = store.status("/in/a")
    store.close()
    assert (found.size, found.is_folder) == (3, False)
    assert abs(found.modified_ns - int(moment.timestamp() * 1000) * 10**6) <= 10**6


@pytest.mark.parametrize(
    ("scheme", "authority", "base"),
    [
        ("webhdfs", "nn", "http://nn:9870"),
        ("swebhdfs", "nn", "https://nn:9871"),
        ("swebhdfs", "nn:50470", "https://nn:50470"),
    ],
)
def test_ports_that_are_not_written_are_those_of_a_destination(scheme, authority, base):
    store = open_store(HdfsSourcePath(scheme, authority, "/in"))
    assert store._base == f"{base}/webhdfs/v1"
    assert found_place(f"{scheme}://{authority}/in").servers == (base,)


def test_an_authority_of_our_own_is_trusted_where_it_is_named(tmp_path, monkeypatch):
    ours, folder = authority("ours"), tmp_path / "hdfs"
    context, bundle = server_context(tmp_path, server_of(ours)), tmp_path / "ours.pem"
    bundle.write_bytes(ours.pem)
    folder.mkdir()
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with WebHdfs(folder, tls=context, data_tls=context) as fake:
        put(fake, "/in/a", b"x")
        uri = f"swebhdfs://{fake.authority}/in"
        with pytest.raises(SourceError, match=r"TLS to \S+ failed") as told:
            answers(opened(fake, uri, tmp_path))
        assert "REQUESTS_CA_BUNDLE" in told.value.fix
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
        assert answers(opened(fake, uri, tmp_path)) == [(f"{uri}/a", b"x")]
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "nowhere"))
        with pytest.raises(SourceError, match="REQUESTS_CA_BUNDLE names"):
            answers(opened(fake, uri, tmp_path))


@pytest.mark.parametrize("member", ["pathSuffix", "type", "length", "modificationTime"])
def test_a_state_that_is_not_told_in_full_is_no_state(hdfs, tmp_path, member):
    put(hdfs, "/in/a", b"x")
    hdfs.left_out = member
    with pytest.raises(SourceError, match="does not speak WebHDFS"):
        answers(opened(hdfs, f"webhdfs://{hdfs.authority}/in", tmp_path))


def test_safe_mode_is_an_error_that_may_pass(hdfs, tmp_path):
    put(hdfs, "/in/a", b"x")
    hdfs.refusals = [(403, "SafeModeException", "Zero blocklocations for /in/a")]
    with pytest.raises(TransientSourceError, match="SafeModeException"):
        answers(opened(hdfs, f"webhdfs://{hdfs.authority}/in", tmp_path))
