"""Job files as DIL's users have them, one set for each pattern, run on Hadoop itself.

They ask for Java classes, DIL's defaults and ``hdfs://lake``; the vendor is that of conf/patterns.
Where the vendor and the keys are is all that is replaced.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pytest

from dil import config
from dil.cli.main import main
from dil.errors import ConfigError
from dil.model.report import RunReport, RunStatus
from dil.storage.hdfs.filesystem import HdfsFilesystem
from tests.integration import hdfs_places
from tests.integration.pattern_jobs import (
    CONTACTS,
    CONVERSIONS,
    ENVIRON,
    Flow,
    VendorServer,
    running_vendor,
)
from tests.servers.hdfs import Hdfs
from tests.servers.sftp import SftpServer

FILES = Path(__file__).with_name("patterns_of_dil")
LAKE = "hdfs://lake"
JOBS = sorted(path.name for path in FILES.glob("jobs/*.pull"))


class DilFlow(Flow):
    """The job files in a folder of their own, on a cluster that they name as they do."""

    def __init__(self, url: str, home: Path, cluster: Hdfs) -> None:
        super().__init__(url, home)
        self.cluster = cluster
        self.files_of_vendor: SftpServer | None = None

    @classmethod
    def of_lake(
        cls, url: str, home: Path, cluster: Hdfs, monkeypatch: pytest.MonkeyPatch
    ) -> DilFlow:
        """Name the cluster ``lake``, of whose name nodes the first is down; empty its ``/data``."""
        hdfs_places.use(monkeypatch)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(cluster.nameservice("lake", home)))
        cluster.ask("DELETE", "/data", "DELETE", recursive="true").raise_for_status()
        return cls(url, home, cluster)

    @property
    def keys(self) -> Path:
        """Return the folder of keys, on this machine and on the cluster."""
        return self.home / "secure"

    def moved(self) -> dict[str, str]:
        """Put the files in their place; change no property but where the vendor and keys are."""
        others = self._elsewhere()
        self.keys.mkdir(exist_ok=True)
        for path in FILES.glob("**/*.*"):
            target = self.home / path.relative_to(FILES)
            target.parent.mkdir(exist_ok=True)
            text = path.read_text(encoding="utf-8")
            for written, ours in others.items():
                text = re.sub(written, ours, text)
            target.write_text(text, encoding="utf-8")
        for name, password in (("master.key", b"testkey\n"), ("master.key.1", b"Hello\n")):
            self.put(f"{self.keys}/{name}", password)
        return {}

    def _elsewhere(self) -> dict[str, str]:
        """Return the one map of what is somewhere else here: hosts of vendors, and keys.

        A server of files has a port, a user and a root folder of its own, too.
        """
        others = {
            r"https://(login|api|survey|ads)\.acme\.example": self.url,
            "/secure/acme": str(self.keys),
        }
        server = self.files_of_vendor
        if server is not None:
            others |= {
                r"(?m)^source\.conn\.port=22$": "",
                r"(?m)^source\.conn\.host=files\.acme\.example$": "source.conn.host=127.0.0.1\n"
                f"source.conn.port={server.port}",
                r"(?m)^source\.conn\.username=lake$": f"source.conn.username={server.user}",
                "=/outbound/": f"={server.files}/outbound/",
            }
        return others

    def serve(self, server: SftpServer) -> None:
        """Let a server be that of the vendor's files, which the job files name."""
        self.files_of_vendor = server
        self.moved()
        shutil.copy(server.key, self.keys / "id_rsa")
        known = server.public(server.host_key)
        (self.keys / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {known}\n")

    def put(self, path: str, data: bytes) -> None:
        """Write a file of HDFS."""
        self.cluster.ask("PUT", path, "CREATE", data, overwrite="true").raise_for_status()

    def job(self, name: str, *, now: str, **changes: str) -> RunReport:
        """Run one of the files."""
        return self.quick(self.home / "jobs" / name, now=now, **changes)

    def stage(self, table: str) -> list[dict[str, object]]:
        """Return the rows of a table that only the next job reads."""
        return self.rows_below(f"/data/stage/acme/com/acme/crm/{table}")

    def rows_below(self, folder: str) -> list[dict[str, object]]:
        """Return the rows of the files of HDFS that a reader of a folder finds."""
        found: list[dict[str, object]] = []
        for path, data in self.files(folder).items():
            parts = path.split("/")
            if parts[-1].startswith("part") and not any(each[:1] == "_" for each in parts):
                found += [row for row in fastavro.reader(io.BytesIO(data)) if isinstance(row, dict)]
        return found

    def files(self, folder: str) -> dict[str, bytes]:
        """Return what files of HDFS hold, by their paths below a folder."""
        store, found = HdfsFilesystem(), {}
        for file in store.files(f"{LAKE}{folder}"):
            with store.open_input(file.path) as stream:
                found[file.path.removeprefix(f"{LAKE}{folder}/")] = stream.read()
        return found


@pytest.fixture
def vendor() -> Iterator[VendorServer]:
    with running_vendor() as server:
        server.acme.user = "Bye"
        yield server


@pytest.fixture
def flow(
    vendor: VendorServer, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DilFlow:
    return DilFlow.of_lake(f"http://127.0.0.1:{vendor.server_port}", tmp_path, hdfs, monkeypatch)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_file_is_valid_as_it_stands(flow: DilFlow, job: str) -> None:
    flow.moved()
    loaded = config.load(flow.home / "jobs" / job, environ=ENVIRON)
    assert loaded.job.name.startswith("acme_")


def test_token_request_status_and_extract_run_as_a_flow(
    flow: DilFlow, vendor: VendorServer
) -> None:
    for job in ("1-token", "2a-request", "2b-status", "2c-extract"):
        report = flow.job(f"{job}.pull", now="2020-01-15T18:00:00Z")
        assert report.status is RunStatus.SUCCESS, report.failures

    asked = vendor.acme.asked
    assert asked[0].form == {
        "grant_type": "refresh_token",
        "client_id": "acme-lake",
        "client_secret": "password",
        "refresh_token": "password",
    }
    (token,) = flow.stage("token")
    assert str(token["access_token"]).startswith("ENC(")
    assert asked[1].sent == {
        "object": "contact",
        "filter": "updated >= 2020-01-12 and updated < 2020-01-15",
        "maxRows": 100000,
        "format": {"kind": "json", "fields": ["id", "email", "updated"]},
    }
    (request,) = flow.stage("export_request")
    export = f"/v2/exports/{request['exportId']}"
    assert [each.path for each in asked[2:]] == [export] * 3 + [f"{export}/rows"] * 3
    assert [each.query for each in asked[5:]] == [
        {"limit": "1000"},
        {"cursor": "1000", "limit": "1000"},
        {"cursor": "2000", "limit": "1000"},
    ]
    assert {each.authorization for each in asked[1:]} == {f"Bearer {min(vendor.acme.tokens)}"}
    found = flow.rows_below("/data/lake")
    assert sorted(str(row["id"]) for row in found) == sorted(row["id"] for row in CONTACTS)
    assert {row["updated"] for row in found} == {1704787200000}


def test_answers_are_read_by_survey_and_month_and_next_day_only_what_is_new(
    flow: DilFlow, vendor: VendorServer
) -> None:
    assert flow.job("4a-surveys.pull", now="2024-01-10T18:00:00Z").rows == 4
    first = flow.job("4b-answers.pull", now="2024-01-10T18:00:00Z")
    assert (first.status, first.units.planned) == (RunStatus.SUCCESS, 13 * 3)
    asked = vendor.acme.asked
    assert {each.query["since"] for each in asked[2:5]} == {"2023-01-01T00:00:00-08:00"}
    assert [each.path for each in asked[2:5]] == [
        f"/api/surveys/{survey}/answers" for survey in (17, 28, 93)
    ]
    before = len(asked)

    vendor.acme.surveys["5"] = "active"
    flow.job("4a-surveys.pull", now="2024-01-11T18:00:00Z")
    second = flow.job("4b-answers.pull", now="2024-01-11T18:00:00Z")
    assert (second.status, second.units.planned) == (RunStatus.SUCCESS, 13 + 3)
    lows = [each.query["since"] for each in asked[before:] if "/17/" in each.path]
    assert lows == ["2024-01-07T00:00:00-08:00"]
    (row,) = [row for row in flow.rows_below("/data/lake") if row["answerId"] == "5-20230301"]
    assert (row["surveyId"], row["updatedAt"]) == ("5", 1677672000000)


def test_a_backfill_and_a_second_bootstrap_read_what_they_name(
    flow: DilFlow, vendor: VendorServer
) -> None:
    flow.job("4a-surveys.pull", now="2024-01-10T18:00:00Z")
    flow.job("4b-answers.pull", now="2024-01-10T18:00:00Z")
    before = len(vendor.acme.asked)

    backfill = flow.job("7-backfill.pull", now="2024-01-10T19:00:00Z")
    assert (backfill.status, backfill.units.planned) == (RunStatus.SUCCESS, 9)
    lows = {each.query["since"][:7] for each in vendor.acme.asked[before:]}
    assert lows == {"2023-03", "2023-04", "2023-05"}
    again = flow.job("8-rebootstrap.pull", now="2024-01-10T20:00:00Z")
    assert (again.status, again.units.planned) == (RunStatus.SUCCESS, 12 * 3)
    normal = flow.job("4b-answers.pull", now="2024-01-10T21:00:00Z")
    assert normal.units.planned == 3, "the partial month of each survey, as always"


def test_batches_are_made_sent_with_a_token_audited_and_validated(
    flow: DilFlow, vendor: VendorServer
) -> None:
    flow.put("/data/lake/marketing/conversions_today/part-0.avro", conversions())
    for job in ("1-token", "5a-batch", "5b-send", "5c-validate"):
        report = flow.job(f"{job}.pull", now="2024-01-10T18:00:00Z")
        assert report.status is RunStatus.SUCCESS, report.failures

    sent = [each.sent for each in vendor.acme.asked if each.path == "/v1/conversions:upload"]
    assert [list(body) for body in sent] == [["validateOnly", "conversions"]] * 3
    assert [len(body["conversions"]) for body in sent] == [200, 200, 50]
    assert [len(row["results"]) for row in flow.stage("conversion_answers")] == [200, 200, 50]
    kept = flow.files("/data/stage/acme/com/acme/crm/conversion_answers/_audit")
    audit = [line for data in kept.values() for line in data.decode().splitlines()]
    assert audit
    assert not any(token in line for token in vendor.acme.tokens for line in audit)


def test_state_that_a_job_has_on_this_machine_is_copied_before_it_goes_on(
    flow: DilFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    now, job = "2024-01-10T18:00:00Z", str(flow.home / "jobs" / "4b-answers.pull")
    folder = {"state.store.dir": str(flow.home / "state")}
    flow.job("4a-surveys.pull", now=now)
    flow.job("4b-answers.pull", now=now, **folder, **{"state.store.fs.uri": "file:///"})
    with pytest.raises(ConfigError, match="acme_answers") as caught:
        flow.job("4b-answers.pull", now=now, **folder)
    (problem,) = caught.value.problems
    assert problem.key == "state.store.dir"
    options = "-D state.store.fs.uri=file:/// --to state.store.fs.uri=hdfs://lake --yes"
    assert f"dil state copy JOB.conf {options}" in problem.fix
    place = ["-D", f"state.store.dir={folder['state.store.dir']}"]
    assert main(["state", "copy", job, *place, *options.split()]) == 0, capsys.readouterr().err
    after = flow.job("4b-answers.pull", now=now, **folder)
    assert (after.status, after.units.planned) == (RunStatus.SUCCESS, 3)


def conversions() -> bytes:
    """Return what marketing leaves for 5a-batch.pull: three batches' rows."""
    fields = [
        {"name": "account", "type": "string"},
        {"name": "clickId", "type": "string"},
        {"name": "value", "type": "double"},
    ]
    schema = {"type": "record", "name": "conversion", "fields": fields}
    file = io.BytesIO()
    rows = [{"account": "acme", **row} for row in CONVERSIONS[:450]]
    fastavro.writer(file, fastavro.parse_schema(schema), rows)
    return file.getvalue()
