"""Job files as DIL's users have them, one set for each pattern, with hosts and folders replaced.

They ask for Java classes and DIL's defaults; the vendor is that of conf/patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pytest

from dil import config
from dil.model.report import RunReport, RunStatus
from tests.integration.pattern_jobs import (
    CONTACTS,
    CONVERSIONS,
    ENVIRON,
    Flow,
    VendorServer,
    read_rows,
    running_vendor,
)

FILES = Path(__file__).with_name("patterns_of_dil")
JOBS = sorted(path.name for path in FILES.glob("jobs/*.pull"))


class DilFlow(Flow):
    """The job files in a folder of their own; only addresses and folders are others."""

    def moved(self) -> dict[str, str]:
        """Put the files in their place; change no property."""
        for path in FILES.glob("**/*.*"):
            target = self.home / path.relative_to(FILES)
            target.parent.mkdir(exist_ok=True)
            text = path.read_text(encoding="utf-8")
            text = re.sub(r"https://(login|api|survey|ads)\.acme\.example", self.url, text)
            text = text.replace("hdfs://lake", "file://").replace("/data/", f"{self.home}/data/")
            target.write_text(text.replace("/secure/acme", str(self.home)), encoding="utf-8")
        (self.home / "master.key").write_text("testkey\n", encoding="utf-8")
        (self.home / "master.key.1").write_text("Hello\n", encoding="utf-8")
        return {}

    def job(self, name: str, *, now: str, **changes: str) -> RunReport:
        """Run one of the files."""
        return self.quick(self.home / "jobs" / name, now=now, **changes)

    def stage(self, table: str) -> list[dict[str, object]]:
        """Return the rows of a table that only the next job reads."""
        return read_rows(self.home / "data" / "stage" / "acme" / "com" / "acme" / "crm" / table)


@pytest.fixture
def vendor() -> Iterator[VendorServer]:
    with running_vendor() as server:
        server.acme.user = "Bye"
        yield server


@pytest.fixture
def flow(vendor: VendorServer, tmp_path: Path) -> DilFlow:
    return DilFlow(f"http://127.0.0.1:{vendor.server_port}", tmp_path)


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
    found = read_rows(flow.home / "data" / "lake")
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
    (row,) = [
        row for row in read_rows(flow.home / "data" / "lake") if row["answerId"] == "5-20230301"
    ]
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
    write_conversions(flow.home / "data" / "lake" / "marketing" / "conversions_today")
    for job in ("1-token", "5a-batch", "5b-send", "5c-validate"):
        report = flow.job(f"{job}.pull", now="2024-01-10T18:00:00Z")
        assert report.status is RunStatus.SUCCESS, report.failures
    stage = flow.home / "data" / "stage" / "acme" / "com" / "acme" / "crm"

    sent = [each.sent for each in vendor.acme.asked if each.path == "/v1/conversions:upload"]
    assert [list(body) for body in sent] == [["validateOnly", "conversions"]] * 3
    assert [len(body["conversions"]) for body in sent] == [200, 200, 50]
    assert [len(row["results"]) for row in flow.stage("conversion_answers")] == [200, 200, 50]
    audit = [
        line
        for path in stage.glob("conversion_answers/_audit/*")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert audit
    assert not any(token in line for token in vendor.acme.tokens for line in audit)


def write_conversions(folder: Path) -> None:
    """Write what marketing leaves for 5a-batch.pull: three batches' rows."""
    fields = [
        {"name": "account", "type": "string"},
        {"name": "clickId", "type": "string"},
        {"name": "value", "type": "double"},
    ]
    schema = {"type": "record", "name": "conversion", "fields": fields}
    folder.mkdir(parents=True)
    with (folder / "part-0.avro").open("wb") as file:
        rows = [{"account": "acme", **row} for row in CONVERSIONS[:450]]
        fastavro.writer(file, fastavro.parse_schema(schema), rows)
