"""Jobs on HDFS with Kerberos: a real realm, real Hadoop, and what goes wrong there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.hdfs.webhdfs_store import WebHdfsStore
from dil.errors import AuthenticationError, WriteError
from dil.model.report import RunStatus
from dil.storage.hdfs.filesystem import HdfsFilesystem
from tests.integration.hdfs_places import Folder
from tests.integration.places import on_place, visible
from tests.servers.hdfs import site_xml
from tests.servers.http_server import HttpServer
from tests.servers.kerberos import Realm
from tests.servers.secure_hdfs import SERVICE, SecureHdfs
from tests.servers.third_party import CACHE
from tests.stories import Story, day

USER = "lake"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecureHdfs]:
    with Realm() as realm, pytest.MonkeyPatch.context() as place:
        place.syspath_prepend(str(CACHE / "kerberos"))
        place.setenv("KRB5_CONFIG", str(realm.config))
        with SecureHdfs(realm) as secured:
            yield secured


@pytest.fixture
def realm(cluster: SecureHdfs) -> Realm:
    return cluster._realm


@pytest.fixture
def folder(cluster: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Return a folder of the user, whose tickets this process takes out of a file of keys."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{cluster._realm.keys(USER)}")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    monkeypatch.setenv("HADOOP_USER_NAME", "mallory")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    found = Folder(cluster)
    found.give(USER)
    return found


@pytest.fixture
def put(folder: Folder) -> str:
    """Return the path of a file of one byte."""
    folder.write("a", b"x")
    return f"{folder.uri}/a"


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the configuration of the cluster be that of this process."""
    path = folder / "core-site.xml"
    path.write_text(site_xml({"hadoop.security.authentication": "kerberos"}))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


@pytest.mark.parametrize("is_configured", [True, False])
def test_a_job_publishes_as_the_user_of_its_ticket_and_goes_on(
    folder: Folder,
    source: HttpServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_configured: bool,
) -> None:
    if is_configured:
        configured(tmp_path, monkeypatch)
    story = Story(tmp_path, source, **on_place(folder))
    assert story.run(day(1)).status is RunStatus.SUCCESS
    first = visible(folder)
    assert story.run(day(2)).status is RunStatus.SUCCESS
    assert set(first) < set(visible(folder))
    answer = folder.server.ask("GET", f"{folder.path}/{first[0]}", "GETFILESTATUS")
    assert answer.json()["FileStatus"]["owner"] == USER


def test_files_are_read_as_the_user_of_the_ticket(put: str, cluster: SecureHdfs) -> None:
    store = WebHdfsStore([cluster.server], "mallory", cluster.uri)
    path = put.removeprefix(cluster.uri)
    assert store.open(path, 0).read(9) == b"x"
    assert [each.path for each in store.entries(path.rpartition("/")[0])] == [path]
    store.close()


def test_without_a_ticket_one_is_told_to_log_in(
    put: str, cluster: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{tmp_path}/none")
    with pytest.raises(WriteError, match="asks for a Kerberos ticket") as caught:
        HdfsFilesystem().exists(put)
    assert "kinit" in caught.value.fix
    store = WebHdfsStore([cluster.server], "", cluster.uri)
    with pytest.raises(AuthenticationError, match="asks for a Kerberos ticket") as refused:
        store.status(put.removeprefix(cluster.uri))
    assert "KRB5_CLIENT_KTNAME" in refused.value.fix
    store.close()


def test_a_name_node_by_another_name_is_told_to_be_named_as_its_principal_is(put: str) -> None:
    with pytest.raises(WriteError, match=r"not found in Kerberos database") as caught:
        HdfsFilesystem().exists(put.replace("localhost", "127.0.0.1"))
    assert "HTTP/host@REALM" in caught.value.fix


def test_a_realm_that_does_not_answer_is_told_apart_from_a_missing_ticket(
    put: str, realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.elsewhere()))
    with pytest.raises(WriteError, match="contact any KDC") as caught:
        HdfsFilesystem().exists(put)
    assert "KRB5_CONFIG" in caught.value.fix


def test_a_ticket_that_the_name_node_does_not_take_is_told_with_its_words(
    put: str, cluster: SecureHdfs, realm: Realm
) -> None:
    realm.change(SERVICE)
    try:
        with pytest.raises(WriteError, match=r"refused the Kerberos ticket .*GSSException"):
            HdfsFilesystem().exists(put)
    finally:
        realm.keys("hdfs/localhost", SERVICE)


def test_without_the_library_one_is_told_what_to_install(
    put: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(WriteError, match="asks for a Kerberos ticket") as caught:
        HdfsFilesystem().exists(put)
    assert "dil-spark[kerberos]" in caught.value.fix


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (
            "Failure unspecified (Mechanism level: Clock skew too great (37))",
            "NTP",
        ),
        ("Ticket expired", "kinit"),
        ("Preauthentication failed", "key file"),
        ("something new", "kinit"),
    ],
)
def test_what_kerberos_says_is_answered_by_what_to_do(words: str, fix: str) -> None:
    from dil.storage.hdfs.kerberos import fix_of

    assert fix in fix_of(words)
