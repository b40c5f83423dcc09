"""``hdfs://lake``: a name that Hadoop's configuration gives to several name nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.hdfs.opening import open_store
from connectors.hdfs.place import HdfsSourcePath
from dil.errors import SourceError, WriteError
from dil.storage.hdfs.filesystem import HdfsFilesystem
from dil.storage.hdfs.place import place_of
from tests.integration import hdfs_places
from tests.servers.hdfs import Hdfs, site_xml
from tests.servers.webhdfs import WebHdfs

STANDBY = (403, "StandbyException", "Operation category READ is not supported in state standby")


def configured(monkeypatch: pytest.MonkeyPatch, folder: Path, **values: str) -> None:
    """Let HADOOP_CONF_DIR name a folder whose hdfs-site.xml has these, two ``_`` for a dot."""
    named = {f"dfs.{name.replace('__', '.').replace('_', '-')}": values[name] for name in values}
    (folder / "hdfs-site.xml").write_text(site_xml(named))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))


@pytest.mark.parametrize(
    ("scheme", "policy", "servers"),
    [
        ("hdfs", "HTTP_ONLY", ("http://a:9870", "http://b:1234")),
        ("webhdfs", "HTTPS_ONLY", ("http://a:9870", "http://b:1234")),
        ("swebhdfs", "HTTP_ONLY", ("https://sa:1", "https://b:9871")),
        ("hdfs", "HTTPS_ONLY", ("https://sa:1", "https://b:9871")),
    ],
)
def test_the_web_addresses_of_all_name_nodes_are_found(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    scheme: str,
    policy: str,
    servers: tuple[str, ...],
) -> None:
    configured(
        monkeypatch,
        tmp_path,
        nameservices="other, Lake",
        ha__namenodes__Lake="nn1, nn2",
        namenode__http_address__Lake__nn1="a:9870",
        namenode__https_address__Lake__nn1="sa:1",
        namenode__http_address__Lake__nn2="0.0.0.0:1234",
        namenode__rpc_address__Lake__nn2="b:8020",
        http__policy=policy,
    )
    assert place_of(f"{scheme}://lake/x").servers == servers
    assert place_of("webhdfs://lake:50070/x").servers == ("http://lake:50070",)
    assert place_of("webhdfs://elsewhere/x").servers == ("http://elsewhere:9870",)


def test_a_name_node_without_an_address_is_an_error_that_names_the_property(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configured(monkeypatch, tmp_path, nameservices="lake", ha__namenodes__lake="nn1")
    with pytest.raises(WriteError, match=r"lake\.nn1") as caught:
        place_of("hdfs://lake/x")
    assert "dfs.namenode.http-address.lake.nn1" in caught.value.fix
    with pytest.raises(SourceError, match=r"lake\.nn1") as refused:
        open_store(HdfsSourcePath("webhdfs", "lake", "/t"))
    assert refused.value.fix == caught.value.fix


def test_a_standby_is_passed_over_by_who_writes_and_by_who_reads(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hdfs_places.use(monkeypatch)
    with WebHdfs(tmp_path) as standby:
        standby.refusals = [STANDBY] * 100
        configured(
            monkeypatch,
            tmp_path,
            nameservices="lake",
            ha__namenodes__lake="nn1,nn2",
            namenode__http_address__lake__nn1=standby.authority,
            namenode__http_address__lake__nn2=f"{hdfs.host}:{hdfs.port}",
        )
        files = HdfsFilesystem()
        assert not files.exists("hdfs://lake/nothing")
        files.put("hdfs://lake/t/a", b"rows")
        with files.open_input("hdfs://lake/t/a") as stream:
            assert stream.read() == b"rows"
        store = open_store(HdfsSourcePath("webhdfs", "lake", "/t"))
        assert [each.path for each in store.entries("/t")] == ["/t/a"]
        part = store.open("/t/a", 0)
        assert part.read(10) == b"rows"
        part.close()
        store.close()
        assert len(standby.requests) == 2, "each client asks it once"
