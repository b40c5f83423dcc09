"""HDFS itself on free loopback ports: a name node and a data node of Apache Hadoop 3.3.6.

They are two processes of Java, stopped by pid (scripts/ensure-third-party). Hadoop comes from a
wheel of PyPI, its web server from Debian, some libraries from pyspark.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import requests

from tests.servers.programs import free_port, give_up
from tests.servers.third_party import CACHE, HOW, needed
from tests.servers.waiting import wait_until

SUPERUSER = "hdfs"
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_OF_SPARK = (
    "commons-codec", "hadoop-client-runtime", "httpclient", "httpcore", "jackson-annotations",
    "jackson-core", "jackson-databind", "javax.servlet-api",
)  # fmt: skip
_LOGGING = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
MIB = 1 << 20


class Hdfs:
    """One cluster, from ``with`` to its end; blocks have one copy and 1 MiB.

    ``host`` is an address of this machine, ``port`` is the port of the name node's web server, and
    ``options`` are options of Java.
    """

    options: Sequence[str] = ()

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._java = shutil.which("java") or give_up(f"java is not installed. {HOW}")
        self._jars = needed("hdfs", "jars")
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.host, self.port, self.rpc_port = host, port or free_port(), free_port()
        self.server = f"http://{host}:{self.port}"
        self.uri = f"webhdfs://{host}:{self.port}"

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="dil-hdfs-"))
        self._configure()
        shutil.copytree(self._formatted(), self.folder / "name")
        self.start(NAME_NODE)
        self.start(DATA_NODE)
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._started):
            self.stop(name)
        shutil.rmtree(self.folder)

    def start(self, program: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._started[program] = subprocess.Popen(
                self._command(program), stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True, env=self._environment(),
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until HDFS takes files; both processes start slowly on a busy machine."""
        wait_until(self._takes_files, timeout_s=180)

    def stop(self, program: str) -> None:
        process = self._started.pop(program)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)

    def ask(
        self, method: str, path: str, operation: str, data: bytes = b"", **query: str
    ) -> requests.Response:
        """Send a request of the superuser, without ``dil``; redirects are followed."""
        return requests.request(
            method, f"{self.server}/webhdfs/v1{quote(path)}", data=data or None, timeout=60,
            params={"op": operation, "user.name": SUPERUSER, **query},
        )  # fmt: skip

    def nameservice(self, name: str, folder: Path) -> Path:
        """Return a folder with the configuration of clients that know the cluster by a name.

        The configuration names two name nodes; the first one does not run.
        """
        values = {
            "dfs.nameservices": name,
            f"dfs.ha.namenodes.{name}": "nn1,nn2",
            f"dfs.namenode.http-address.{name}.nn1": f"{self.host}:{free_port()}",
            f"dfs.namenode.http-address.{name}.nn2": f"{self.host}:{self.port}",
        }
        place = folder / "hadoop-conf"
        place.mkdir()
        (place / "hdfs-site.xml").write_text(site_xml(values))
        return place

    def admin(self, *words: str) -> None:
        """Run ``hdfs dfsadmin`` with words such as ``-safemode enter``."""
        self._run("org.apache.hadoop.hdfs.tools.DFSAdmin", *words)

    def metric(self, name: str) -> int:
        """Return a counter of the data node; the value is a second or two old."""
        location = requests.put(
            f"{self.server}/webhdfs/v1/.metric", timeout=60, allow_redirects=False,
            params={"op": "CREATE", "user.name": SUPERUSER},
        ).headers["Location"]  # fmt: skip
        beans = requests.get(f"{location.partition('/webhdfs')[0]}/jmx", timeout=60).json()["beans"]
        (found,) = [bean[name] for bean in beans if name in bean]
        return int(found)

    def _takes_files(self) -> bool:
        for process in self._started.values():
            if process.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-4000:])
        try:
            made = self.ask("PUT", "/ready", "CREATE", overwrite="true").status_code == 201
            return made and self.ask("DELETE", "/ready", "DELETE").ok
        except requests.ConnectionError:
            return False

    def _formatted(self) -> Path:
        """Return the folder of an empty name node; the first call makes the folder."""
        place = CACHE / "hdfs" / "formatted"
        if not place.exists():
            self._run(NAME_NODE, "-format", "-nonInteractive")
            beside = place.with_name(f"{place.name}-{uuid.uuid4().hex}")
            shutil.move(self.folder / "name", beside)  # maybe from another file system
            try:
                beside.rename(place)
            except OSError:  # another worker came first
                shutil.rmtree(beside)
        return place

    def _run(self, *words: str) -> None:
        subprocess.run(
            self._command(*words), check=True, capture_output=True, cwd=self.folder,
            env=self._environment(), timeout=180,
        )  # fmt: skip

    def _command(self, *words: str) -> list[str]:
        import pyspark

        spark = Path(pyspark.__file__).parent / "jars"
        ours = [str(self.folder / "conf"), f"{self._jars}/*"]
        others = [str(jar) for name in _OF_SPARK for jar in spark.glob(f"{name}-[0-9]*.jar")]
        return [
            self._java, *self.options, "-Xmx128m", "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1", "-cp",
            os.pathsep.join([*ours, *others]), *words,
        ]  # fmt: skip

    @staticmethod
    def _environment() -> dict[str, str]:
        return {**os.environ, "HADOOP_USER_NAME": SUPERUSER}

    def _configure(self) -> None:
        conf = self.folder / "conf"
        # The folder where the web servers look for pages; there are none.
        for pages in ("hdfs", "datanode"):
            (conf / "webapps" / pages).mkdir(parents=True)
        (conf / "log4j.properties").write_text(_LOGGING)
        (conf / "hadoop-metrics2.properties").write_text("*.period=1\n")  # seconds
        address = f"{self.host}:{self.rpc_port}"
        core = {"fs.defaultFS": f"hdfs://{address}", "hadoop.tmp.dir": str(self.folder / "tmp")}
        hdfs = {
            "dfs.namenode.name.dir": f"file://{self.folder}/name",
            "dfs.datanode.data.dir": f"file://{self.folder}/data",
            "dfs.namenode.http-address": f"{self.host}:{self.port}",
            "dfs.namenode.rpc-address": address,
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.fs-limits.min-block-size": "1024",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.replication": "1",
            "dfs.blocksize": str(MIB),
            "dfs.ls.limit": "5",
            # No power cut is tested, so the name node's writes need not reach its disk.
            "dfs.namenode.edits.noeditlogchannelflush": "true",
            # How long a data node waits before it asks again whether a file may be closed.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
        }
        for name, values in (("core", core), ("hdfs", hdfs)):
            (conf / f"{name}-site.xml").write_text(site_xml({**values, **self._more(name)}))

    def _more(self, name: str) -> Mapping[str, str]:
        """Return further properties of core-site.xml or hdfs-site.xml, by the name before ``-``."""
        del name
        return {}


def site_xml(values: Mapping[str, Any]) -> str:
    """Return properties in the form of Hadoop's configuration files."""
    lines = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    return f"<configuration>{''.join(lines)}</configuration>"
