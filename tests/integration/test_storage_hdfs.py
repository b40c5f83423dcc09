"""HDFS as a place of files: what is its own, and what it says when it does not work."""

import os
import subprocess

import pytest

from dil.errors import WriteError
from dil.storage.hdfs.client import WebHdfs as WebHdfsClient
from dil.storage.hdfs.filesystem import HdfsFilesystem
from tests.integration.hdfs_places import opened, use
from tests.integration.places import read, refused, write
from tests.servers.certificates import authority, server_context, server_of
from tests.servers.hdfs import DATA_NODE
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.programs import free_port
from tests.servers.waiting import wait_until
from tests.servers.webhdfs import DELEGATION, WebHdfs

MIB = 1 << 20


@pytest.fixture
def folder(hdfs, monkeypatch):
    return opened(hdfs, monkeypatch)


@pytest.fixture
def proxy(hdfs):
    """Stand between us and the name node; data nodes are reached past it."""
    with MeddlingProxy(hdfs.port) as meddling:
        yield meddling


@pytest.fixture
def meddled(proxy, folder):
    """Return the folder's path through the proxy."""
    return f"webhdfs://127.0.0.1:{proxy.port}{folder.path}"


def test_a_large_file_is_sent_as_it_comes_and_appears_when_it_is_closed(folder):
    files, data = HdfsFilesystem(part_bytes=MIB), os.urandom(5 * MIB + 7)
    with files.open_output(f"{folder.uri}/in/a") as stream:
        for start in range(0, len(data), 300_000):
            stream.write(memoryview(data)[start : start + 300_000])
        (hidden,) = folder.keys()
        assert hidden.startswith("in/.")
    assert folder.objects() == {"in/a": data}


def test_what_was_written_is_on_the_disks_of_the_data_nodes(hdfs, folder):
    files, before = HdfsFilesystem(part_bytes=MIB), hdfs.metric("FsyncCount")
    files.put(f"{folder.uri}/a", b"1")
    write(files, f"{folder.uri}/b", bytes(3 * MIB))
    wait_until(lambda: hdfs.metric("FsyncCount") - before == 4)


def test_a_file_that_was_never_closed_is_not_there(folder):
    files = HdfsFilesystem(part_bytes=MIB)
    stream = files.open_output(f"{folder.uri}/a")
    stream.write(bytes(2 * MIB))
    del stream
    assert not files.exists(f"{folder.uri}/a")
    files.delete_tree(folder.uri)
    assert not files.exists(folder.uri)


def test_a_file_whose_data_did_not_all_arrive_does_not_appear(folder):
    files = HdfsFilesystem(part_bytes=MIB)
    stream = files.open_output(f"{folder.uri}/a")
    stream.write(bytes(2 * MIB))
    # As where the connection ends too early: the data node makes a file of what came.
    stream._upload._connection.send(b"0\r\n\r\n")
    stream._upload.send = lambda data: None
    stream._upload._connection.send = lambda data: None
    with pytest.raises(WriteError, match="of 2,097,152 written bytes"):
        stream.close()
    assert folder.keys() == []


def test_a_small_file_whose_data_did_not_all_arrive_does_not_appear(folder, monkeypatch):
    create = WebHdfsClient.create
    monkeypatch.setattr(
        WebHdfsClient, "create", lambda self, path, data: create(self, path, data[:1])
    )
    with pytest.raises(WriteError, match="of 3 written bytes"):
        HdfsFilesystem().put(f"{folder.uri}/a", b"all")
    assert folder.keys() == []


def test_a_hidden_file_that_another_program_deletes_is_not_taken_for_the_target(
    proxy, folder, meddled
):
    folder.write("a", b"old")

    def swept():
        for key in {*folder.keys()} - {"a"}:
            HdfsFilesystem().delete_file(f"{folder.uri}/{key}")

    proxy.act_before(b"op=RENAME", swept)
    with pytest.raises(WriteError, match="vanished"):
        HdfsFilesystem().put(f"{meddled}/a", b"new")
    assert folder.objects() == {"a": b"old"}


def test_a_file_whose_folder_is_deleted_meanwhile_does_not_appear(folder):
    files = HdfsFilesystem(part_bytes=MIB)
    stream = files.open_output(f"{folder.uri}/in/a")
    stream.write(bytes(2 * MIB))
    files.delete_tree(f"{folder.uri}/in")
    with pytest.raises(WriteError):
        stream.close()
    assert folder.keys() == []


def test_a_name_that_another_took_meanwhile_is_not_taken_from_it(folder):
    files = HdfsFilesystem()
    stream = files.open_output(f"{folder.uri}/a")
    stream.write(b"late")
    folder.write("a", b"first")
    with pytest.raises(WriteError, match="exists already"):
        stream.close()
    assert folder.objects() == {"a": b"first"}


def test_a_file_is_never_moved_into_a_folder_of_the_target_s_name(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", b"1")
    files.make_folder(f"{folder.uri}/to")
    for act in (files.move, files.replace):
        with pytest.raises(WriteError):
            act(f"{folder.uri}/a", f"{folder.uri}/to")
    assert not files.put_if_absent(f"{folder.uri}/to", b"2")
    assert folder.objects() == {"a": b"1"}


def test_a_move_makes_the_folder_that_is_missing(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", b"1")
    files.move(f"{folder.uri}/a", f"{folder.uri}/in/deep/b")
    assert folder.objects() == {"in/deep/b": b"1"}


def test_permissions_are_those_that_were_asked_for(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", b"1")
    files.make_folder(f"{folder.uri}/x/y", mode=0o750)
    files.move(f"{folder.uri}/a", f"{folder.uri}/x/y/b", mode=0o640)
    files.make_folder(f"{folder.uri}/x", mode=0o700)
    assert [folder.mode(path) for path in ("x", "x/y", "x/y/b")] == ["750", "750", "640"]
    files.put(f"{folder.uri}/c", b"1")
    files.replace(f"{folder.uri}/c", f"{folder.uri}/x/y/b", mode=0o600)
    assert folder.mode("x/y/b") == "600"


def test_an_empty_folder_is_deleted_and_no_other_and_no_file(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/full/a", b"1")
    files.make_folder(f"{folder.uri}/empty")
    for path in ("full", "full/a", "empty", "empty"):
        files.delete_empty_folder(f"{folder.uri}/{path}")
    assert folder.folders() == ["full"]
    assert folder.keys() == ["full/a"]
    with pytest.raises(WriteError, match="is a folder"):
        files.delete_file(f"{folder.uri}/full")


def test_a_folder_that_was_deleted_is_not_brought_back_by_a_file_in_it(folder):
    with pytest.raises(FileNotFoundError):
        HdfsFilesystem()._client.create(f"{folder.uri}/gone/a", b"1")
    assert folder.folders() == []


def test_more_entries_than_an_answer_holds_are_listed(folder):
    files = HdfsFilesystem()  # the server sends five at a time
    names = sorted(f"{number} {sign}" for number in range(4) for sign in "#%+?ü")
    for name in names:
        files.put(f"{folder.uri}/{name}/x", b"1")
    assert files.folders(folder.uri) == names
    assert [each.path for each in files.files(folder.uri)] == [
        f"{folder.uri}/{name}/x" for name in names
    ]


def test_the_order_of_files_is_that_of_whole_paths(folder):
    files = HdfsFilesystem()
    paths = [f"{folder.uri}/{name}" for name in ("day-1", "day-1.json", "day-1/x", "day-10/x")]
    for path in (paths[1], paths[2], paths[3]):
        files.put(path, b"1")
    assert [each.path for each in files.files(folder.uri)] == paths[1:]


@pytest.mark.parametrize("path", ["/lake/a", "file:///lake/a", "hdfs:/a", "webhdfs://", "s3://b"])
def test_what_is_no_place_on_hdfs_is_not_there(path, monkeypatch):
    use(monkeypatch)
    files = HdfsFilesystem()
    assert not files.exists(path)
    assert list(files.files(path)) == []
    assert files.folders(path) == []
    with pytest.raises(FileNotFoundError):
        files.open_input(path)


# Answers that are lost


def test_a_first_writer_whose_answer_was_lost_is_told_that_it_was_first(proxy, folder, meddled):
    proxy.cut_answer_after(b"op=RENAME")
    assert HdfsFilesystem().put_if_absent(f"{meddled}/a", b"mine")
    assert proxy.cuts == 1
    assert folder.objects() == {"a": b"mine"}


def test_a_second_writer_whose_answer_was_lost_is_told_that_it_was_second(proxy, folder, meddled):
    proxy.act_before(b"op=RENAME", lambda: folder.write("a", b"other"))
    proxy.cut_answer_after(b"op=RENAME")
    assert not HdfsFilesystem().put_if_absent(f"{meddled}/a", b"mine")
    assert folder.objects() == {"a": b"other"}


@pytest.mark.parametrize("operation", ["GETFILESTATUS", "CREATE", "RENAME"])
def test_a_file_is_written_once_however_an_answer_is_lost(operation, proxy, folder, meddled):
    folder.write("a", b"old")
    proxy.cut_answer_after(f"op={operation}".encode())
    files = HdfsFilesystem()
    files.put(f"{meddled}/a", b"new")
    write(files, f"{meddled}/b", b"1")
    assert proxy.cuts == 1
    assert folder.objects() == {"a": b"new", "b": b"1"}


@pytest.mark.parametrize("operation", ["SETPERMISSION", "RENAME"])
def test_a_move_is_done_once_however_an_answer_is_lost(operation, proxy, folder, meddled):
    folder.write("a", b"1")
    folder.write("old", b"0")
    folder.write("new", b"2")
    files = HdfsFilesystem()
    proxy.cut_answer_after(f"op={operation}".encode())
    files.move(f"{meddled}/a", f"{meddled}/in/b", mode=0o640)
    proxy.cut_answer_after(f"op={operation}".encode())
    files.replace(f"{meddled}/new", f"{meddled}/old", mode=0o640)
    assert proxy.cuts == 2
    assert folder.objects() == {"in/b": b"1", "old": b"2"}


def test_folders_are_made_and_deleted_however_an_answer_is_lost(proxy, folder, meddled):
    files = HdfsFilesystem()
    proxy.cut_answer_after(b"op=MKDIRS")
    files.make_folder(f"{meddled}/a/b")
    assert folder.folders() == ["a", "a/b"]
    proxy.cut_answer_after(b"op=DELETE")
    files.delete_tree(f"{meddled}/a")
    assert folder.folders() == []
    assert proxy.cuts == 2


def test_a_move_that_another_driver_finished_meanwhile_changes_nothing(proxy, folder, meddled):
    folder.write("a", b"1")
    other = HdfsFilesystem()
    proxy.act_before(b"op=RENAME", lambda: other.move(f"{folder.uri}/a", f"{folder.uri}/b"))
    HdfsFilesystem().move(f"{meddled}/a", f"{meddled}/b")
    assert folder.objects() == {"b": b"1"}


def test_a_move_that_another_driver_finished_while_its_folder_was_made(proxy, folder, meddled):
    folder.write("a", b"1")
    other = HdfsFilesystem()
    proxy.act_before(b"op=MKDIRS", lambda: other.move(f"{folder.uri}/a", f"{folder.uri}/in/b"))
    HdfsFilesystem().move(f"{meddled}/a", f"{meddled}/in/b")
    assert proxy.failures == []
    assert folder.objects() == {"in/b": b"1"}


def test_a_folder_of_the_target_that_is_deleted_once_is_made_again(proxy, folder, meddled):
    folder.write("a", b"1")
    swept = []

    def sweep():
        HdfsFilesystem().delete_tree(f"{folder.uri}/in")
        swept.append("in")
        if len(swept) < 2:  # the first time it is not there yet
            proxy.act_before(b"op=RENAME", sweep)

    proxy.act_before(b"op=RENAME", sweep)
    HdfsFilesystem().move(f"{meddled}/a", f"{meddled}/in/b", mode=0o640)
    assert len(swept) == 2
    assert folder.objects() == {"in/b": b"1"}
    assert folder.mode("in/b") == "640"


def test_a_folder_of_the_target_that_is_deleted_all_the_time_is_told(proxy, folder, meddled):
    folder.write("a", b"1")

    def sweep():
        HdfsFilesystem().delete_tree(f"{folder.uri}/in")
        proxy.act_before(b"op=RENAME", sweep)

    proxy.act_before(b"op=RENAME", sweep)
    error = refused(lambda: HdfsFilesystem().move(f"{meddled}/a", f"{meddled}/in/b"))
    assert "was deleted repeatedly" in error.message
    assert folder.objects() == {"a": b"1"}


# What does not work


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("a:b", "no name with a colon"),
        ("in/../a", "no . or .."),
        ("ü" * 128, "longer than 255 bytes"),
        ("/".join(["x"] * 1001), "1,000 folders at most"),
        ("/".join(["x" * 200] * 40), "8,000 characters"),
    ],
)
def test_a_name_that_hdfs_does_not_take_is_refused_before_anything_is_sent(path, what, monkeypatch):
    use(monkeypatch)
    assert what in refused(lambda: HdfsFilesystem().check_path(f"hdfs://nn/{path}")).message


def test_the_longest_name_is_taken(folder):
    files, name = HdfsFilesystem(), "ü" * 127
    files.check_path(f"{folder.uri}/{name}")
    files.put(f"{folder.uri}/{name}", b"1")
    write(files, f"{folder.uri}/in/{name}", b"1")
    assert folder.keys() == [f"in/{name}", name]


def test_rights_that_are_missing_are_told_with_the_user(folder, monkeypatch):
    use(monkeypatch, "mallory")
    files = HdfsFilesystem()
    for act in (
        lambda: files.put_if_absent(f"{folder.uri}/a", b""),
        lambda: write(files, f"{folder.uri}/a", b""),
        lambda: files.make_folder(f"{folder.uri}/a"),
    ):
        error = refused(act)
        assert "AccessControlException (Permission denied: user=mallory" in error.message
        assert "HADOOP_USER_NAME" in error.fix
    folder.give("mallory")
    assert files.put_if_absent(f"{folder.uri}/a", b"")


def test_a_quota_is_told(hdfs, folder):
    files = HdfsFilesystem()
    hdfs.ask("PUT", folder.path, "SETQUOTA", namespacequota="2").raise_for_status()
    files.put(f"{folder.uri}/a", b"")
    error = refused(lambda: files.put(f"{folder.uri}/b", b""))
    assert "NSQuotaExceededException" in error.message
    assert "setQuota" in error.fix
    hdfs.ask("PUT", folder.path, "SETQUOTA", namespacequota="-1", storagespacequota="4096")
    error = refused(lambda: write(HdfsFilesystem(part_bytes=10), f"{folder.uri}/b", bytes(99)))
    assert "DSQuotaExceededException" in error.message
    assert "setSpaceQuota" in error.fix
    assert folder.keys() == ["a"]


def test_a_file_in_the_way_of_a_folder_is_told(folder):
    files = HdfsFilesystem()
    files.put(f"{folder.uri}/a", b"")
    for act in (
        lambda: files.put(f"{folder.uri}/a/b", b""),
        lambda: files.make_folder(f"{folder.uri}/a/b"),
    ):
        assert "a (is not a directory)" in refused(act).message


def test_safe_mode_is_told(hdfs, folder):
    files = HdfsFilesystem()
    hdfs.admin("-safemode", "enter")
    try:
        error = refused(lambda: files.put(f"{folder.uri}/a", b""))
    finally:
        hdfs.admin("-safemode", "leave")
    assert "SafeModeException" in error.message
    assert "-safemode get" in error.fix
    assert "\n" not in error.message
    files.put(f"{folder.uri}/a", b"")


def test_a_cluster_without_data_nodes_is_told(hdfs, folder):
    hdfs.stop(DATA_NODE)
    try:
        error = refused(lambda: HdfsFilesystem().put(f"{folder.uri}/a", b"1"))
    finally:
        hdfs.start(DATA_NODE)
        hdfs.wait()
    assert "Check the network" in error.fix or "hdfs dfsadmin -report" in error.fix
    HdfsFilesystem().put(f"{folder.uri}/a", b"1")
    assert folder.objects() == {"a": b"1"}


def test_a_name_node_that_is_not_there_is_told_with_its_address(monkeypatch):
    use(monkeypatch)
    port = free_port()
    error = refused(lambda: HdfsFilesystem().exists(f"webhdfs://127.0.0.1:{port}/lake/a"))
    assert f"http://127.0.0.1:{port} cannot be reached" in error.message
    assert f"webhdfs://127.0.0.1:{port}/lake/a" in error.message


def test_a_server_that_is_no_name_node_is_told(hdfs, folder):
    error = refused(lambda: HdfsFilesystem().exists(f"webhdfs://127.0.0.1:{hdfs.rpc_port}/a"))
    assert "does not speak WebHDFS" in error.message
    assert "dfs.namenode.http-address" in error.fix


# By a stated fake: it answers what two name nodes, Kerberos and HttpFS would


@pytest.mark.parametrize(
    ("answer", "what", "fix"),
    [
        ((403, "StandbyException", "Operation category READ is not supported in state standby"),
         "StandbyException (Operation category READ", "haadmin"),
        ((401, "AuthenticationException", "SIMPLE authentication is not enabled."),
         "SIMPLE authentication is not enabled", "Get a ticket"),
    ],
)  # fmt: skip
def test_who_does_not_answer_us_is_told(answer, what, fix, tmp_path, monkeypatch):
    use(monkeypatch)
    with WebHdfs(tmp_path) as fake:
        fake.refusals += [answer] * 4
        error = refused(lambda: HdfsFilesystem().exists(f"webhdfs://{fake.authority}/a"))
    assert what in error.message
    assert fix in error.fix


def test_a_name_node_that_becomes_active_is_asked_again(tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"1")
    with WebHdfs(tmp_path) as fake:
        fake.refusals += [(403, "StandbyException", "state standby")] * 2
        assert HdfsFilesystem().exists(f"webhdfs://{fake.authority}/a")
        assert len(fake.requests) == 3


def test_a_server_that_ignores_the_options_of_a_rename_is_refused(tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"1")
    with WebHdfs(tmp_path) as fake:
        uri = f"webhdfs://{fake.authority}"
        error = refused(lambda: HdfsFilesystem().move(f"{uri}/a", f"{uri}/b"))
    assert "does not obey renameoptions" in error.message
    assert "HttpFS" in error.message


def test_what_fails_without_a_known_reason_is_to_be_looked_for_in_the_log(tmp_path, monkeypatch):
    use(monkeypatch)
    with WebHdfs(tmp_path) as fake:
        fake.refusals += [(403, "IOException", "Blocklist for /a has changed!")]
        error = refused(lambda: HdfsFilesystem().exists(f"webhdfs://{fake.authority}/a"))
    assert "IOException (Blocklist for /a has changed!)" in error.message
    assert "name node's log" in error.fix
    assert "web address" not in error.fix


def test_a_path_of_another_file_system_is_told_with_the_properties_that_may_name_it():
    error = refused(lambda: HdfsFilesystem().check_path("/state/x"))
    assert error.message == "/state/x is not on HDFS"
    assert "state.store.dir" in error.fix


def test_a_move_to_another_cluster_says_what_to_do(monkeypatch):
    use(monkeypatch)
    error = refused(lambda: HdfsFilesystem().move("webhdfs://one/a", "webhdfs://two/a"))
    assert "on another cluster" in error.message
    assert "data.publisher.final.dir" in error.fix


@pytest.mark.parametrize("member", ["pathSuffix", "type", "length", "modificationTime", "fileId"])
def test_a_state_that_is_not_told_in_full_is_no_state(member, tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"1")
    with WebHdfs(tmp_path) as fake:
        fake.left_out = member
        error = refused(lambda: HdfsFilesystem().exists(f"webhdfs://{fake.authority}/a"))
    assert error.message.endswith(f"does not speak WebHDFS (its answer has no {member})")


@pytest.mark.parametrize(
    "answers",
    [
        [(403, "RetriableException", "come back")],
        [(500, "RuntimeException", ""), (503, "RetriableException", "")],
    ],
)
def test_a_data_node_that_fails_is_asked_again(answers, tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"content")
    with WebHdfs(tmp_path) as fake:
        fake.data_refusals += answers
        assert read(HdfsFilesystem(), f"webhdfs://{fake.authority}/a") == b"content"
        assert fake.requests.count("OPEN /a") == len(answers) + 1


def test_where_a_data_node_is_dead_the_name_node_is_asked_for_another(tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"content")
    with WebHdfs(tmp_path) as fake:
        fake.detours += [f"127.0.0.1:{free_port()}"]
        assert read(HdfsFilesystem(), f"webhdfs://{fake.authority}/a") == b"content"
        assert fake.requests.count("OPEN /a") == 2


def test_a_file_that_a_data_node_may_not_give_is_asked_for_once(tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"content")
    with WebHdfs(tmp_path) as fake:
        fake.data_refusals += [(403, "AccessControlException", "Permission denied: user=x")]
        error = refused(lambda: read(HdfsFilesystem(), f"webhdfs://{fake.authority}/a"))
        assert fake.requests.count("OPEN /a") == 1
    assert f"http://{fake.data_node} answers AccessControlException" in error.message


# TLS, by the fake


@pytest.fixture
def ours():
    return authority("ours")


@pytest.fixture
def context(tmp_path, ours):
    return server_context(tmp_path, server_of(ours))


@pytest.fixture(params=["a file", "a folder"])
def bundle(request, tmp_path, ours):
    """Return where our authority is told, in one of the ways that requests takes."""
    if request.param == "a file":
        file = tmp_path / "ours.pem"
        file.write_bytes(ours.pem)
        return file
    place = tmp_path / "authorities"
    place.mkdir()
    (place / "ours.pem").write_bytes(ours.pem)
    subprocess.run(["openssl", "rehash", place], check=True, capture_output=True)
    return place


def test_an_authority_of_our_own_is_trusted(bundle, context, tmp_path, monkeypatch):
    use(monkeypatch)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "a").write_bytes(b"content")
    with WebHdfs(lake, tls=context, data_tls=context) as fake:
        uri = f"swebhdfs://{fake.authority}"
        assert read(HdfsFilesystem(), f"{uri}/a") == b"content"
        # The fake takes no data, but says so over TLS.
        files = HdfsFilesystem(part_bytes=10)
        error = refused(lambda: write(files, f"{uri}/b", bytes(99)))
    assert "does not speak WebHDFS (HTTP status 501)" in error.message


def test_an_authority_that_is_not_trusted_is_told_without_tokens(context, tmp_path, monkeypatch):
    use(monkeypatch)
    (tmp_path / "a").write_bytes(b"content")
    with WebHdfs(tmp_path, data_tls=context) as fake:
        uri, files = f"webhdfs://{fake.authority}", HdfsFilesystem(part_bytes=10)
        for act in (
            lambda: read(files, f"{uri}/a"),
            lambda: files.put(f"{uri}/b", b"1"),
            lambda: write(files, f"{uri}/c", bytes(99)),
        ):
            error = refused(act)
            assert f"TLS to https://{fake.data_node} failed (CERTIFICATE_" in error.message
            assert "REQUESTS_CA_BUNDLE" in error.fix
            assert DELEGATION not in str(error)
            assert "?" not in error.message


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_a_bundle_that_cannot_be_read_is_told_with_its_variable(
    content, context, tmp_path, monkeypatch
):
    use(monkeypatch)
    bundle = tmp_path / "bundle.pem"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    if content is not None:
        bundle.write_bytes(content)
    with WebHdfs(tmp_path, data_tls=context) as fake:
        uri, files = f"webhdfs://{fake.authority}", HdfsFilesystem(part_bytes=10)
        for act in (
            lambda: read(files, f"{uri}/server.pem"),
            lambda: files.put(f"{uri}/b", b"1"),
            lambda: write(files, f"{uri}/c", bytes(99)),
        ):
            error = refused(act)
            assert f"REQUESTS_CA_BUNDLE names {bundle}" in error.message
            assert "(PEM)" in error.fix
