"""The flows of conf/patterns, run as their README says, against the vendor that stands there."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil import config
from dil.errors import DilError
from dil.model.report import RunStatus
from tests.integration.pattern_jobs import (
    CONTACTS,
    CONVERSIONS,
    CUSTOMERS,
    ENVIRON,
    PATTERNS,
    SURVEYS,
    UNKNOWN,
    Acme,
    Flow,
    VendorServer,
    paths_of,
    running_vendor,
)
from tests.servers.waiting import wait_until

JOBS = sorted(path.relative_to(PATTERNS).as_posix() for path in PATTERNS.glob("*/*.pull"))
DAYS_UNTIL_NOW = 374  # answers of one survey from 2023-01-01 to the midnight before NOW


@pytest.fixture
def vendor() -> Iterator[VendorServer]:
    with running_vendor() as server:
        yield server


@pytest.fixture
def acme(vendor: VendorServer) -> Acme:
    return vendor.acme


@pytest.fixture
def flow(vendor: VendorServer, tmp_path: Path) -> Flow:
    return Flow(f"http://127.0.0.1:{vendor.server_port}", tmp_path)


# Job files and their README


@pytest.mark.parametrize("job", JOBS)
def test_every_job_file_is_valid_and_there_is_nothing_to_warn_of(flow: Flow, job: str) -> None:
    loaded = config.load(PATTERNS / job, overrides=flow.moved(), environ=ENVIRON)
    assert set(loaded.notices) <= set(loaded.infos)


def test_the_readme_runs_every_job_file(flow: Flow) -> None:
    text = (PATTERNS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^dil run conf/patterns/(\S+)", text, re.MULTILINE)) == set(JOBS)


# As a user runs them: processes with Spark


@pytest.mark.spark
def test_a_token_is_kept_encrypted_for_its_owner_and_the_next_job_reads_with_it(
    flow: Flow, acme: Acme
) -> None:
    flow.run("authentication/token.pull")
    flow.run("authentication/conversions.pull")

    (row,) = flow.rows("token")
    (file,) = (flow.lake / "token").glob("part-*.avro")
    assert str(row["access_token"]).startswith("ENC(v1:")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert len(acme.tokens) == 1
    assert {asked.authorization for asked in acme.asked[1:]} == {f"Bearer {min(acme.tokens)}"}
    assert flow.rows("conversions") == CONVERSIONS


@pytest.mark.spark
def test_an_export_is_asked_for_waited_for_and_read(flow: Flow, acme: Acme) -> None:
    for job in ("request", "status", "extract"):
        flow.run(f"async_export/{job}.pull")

    (request,) = flow.rows("export_request")
    export = f"/v2/exports/{request['exportId']}"
    assert paths_of(acme, "GET") == [export] * 3 + [f"{export}/rows"] * 3
    (sent,) = [asked.sent for asked in acme.asked if asked.path == "/v2/exports"]
    assert sent == {
        "object": "contact",
        "filter": "updated >= 2024-01-07 and updated < 2024-01-10",
        "maxRows": 100000,
        "format": {"kind": "json", "fields": ["id", "email"]},
    }
    assert [row["state"] for row in flow.rows("export_status")] == ["running", "running", "ready"]
    found = [(row["id"], row["email"]) for row in flow.rows("contacts")]
    assert sorted(found) == sorted((row["id"], row["email"]) for row in CONTACTS)


@pytest.mark.spark
def test_a_list_is_read_and_then_the_details_of_each_of_its_rows(flow: Flow) -> None:
    assert flow.quick("two_step/surveys.pull").rows == len(SURVEYS)
    report = flow.run("two_step/answers.pull")

    assert report["work_units"]["planned"] == 3 * 13
    found = [(row["surveyId"], row["answerId"]) for row in flow.rows("answers")]
    assert len(found) == len(set(found)) == 3 * DAYS_UNTIL_NOW
    assert {survey for survey, _ in found} == {"17", "28", "93"}
    assert all(answer.startswith(f"{survey}-") for survey, answer in found)


@pytest.mark.spark
def test_rows_are_sent_in_batches_and_the_vendor_says_what_became_of_them(
    flow: Flow, acme: Acme
) -> None:
    flow.quick("egress/batch.pull")
    flow.run("egress/send.pull")
    report = flow.run("egress/validate.pull")

    sent = [asked.sent for asked in acme.asked if asked.path == "/v1/conversions:upload"]
    assert [len(body["conversions"]) for body in sent] == [200, 200, 50]
    clicks = [{"clickId": row["clickId"], "value": row["value"]} for row in CONVERSIONS]
    assert [row for body in sent for row in body["conversions"]] == clicks
    assert {json.dumps(body["validateOnly"]) for body in sent} == {"false"}
    answers = [result for row in flow.rows("conversion_answers") for result in row["results"]]
    assert {row["clickId"] for row in answers if row["error"]} == UNKNOWN
    assert report["rows"] == 0
    assert "18 of 450 expected rows (4 %) count as failure" in json.dumps(report)


# Without Spark: what happens when something goes otherwise


def test_a_token_can_be_fetched_by_the_job_itself(flow: Flow, acme: Acme) -> None:
    assert flow.quick("authentication/in_job.pull").rows == 450
    (asked,) = [asked for asked in acme.asked if asked.path == "/oauth2/token"]
    assert asked.form["grant_type"] == "client_credentials"


def test_a_wrong_secret_fails_the_token_job_and_keeps_the_token_of_before(
    flow: Flow, acme: Acme
) -> None:
    flow.quick("authentication/token.pull")
    before = flow.rows("token")
    form = [{"name": "grant_type", "value": "refresh_token"}]
    report = flow.quick(
        "authentication/token.pull", ms__parameters=json.dumps(form), task__maxretries="0"
    )
    assert report.status is RunStatus.FAILED
    assert "401" in report.failures[0].error
    assert flow.rows("token") == before


def test_a_job_whose_token_went_stale_reads_it_again_and_loses_nothing(
    flow: Flow, acme: Acme
) -> None:
    flow.quick("authentication/token.pull")
    acme.tokens.clear()
    text = (PATTERNS / "authentication" / "conversions.pull").read_text(encoding="utf-8")
    hasty = flow.home / "conversions.pull"
    hasty.write_text(text.replace('"delayInSec": 30', '"delayInSec": 2'), encoding="utf-8")
    with ThreadPoolExecutor() as threads:
        run = threads.submit(flow.quick, hasty, writer__file__path__type="tablename")
        wait_until(lambda: paths_of(acme, "GET"))
        flow.quick("authentication/token.pull")
        report = run.result()

    assert report.status is RunStatus.SUCCESS
    assert flow.rows("conversions") == CONVERSIONS
    assert len({asked.authorization for asked in acme.asked if asked.method == "GET"}) == 2


def test_an_export_that_was_read_is_not_read_again_and_a_new_one_is(flow: Flow) -> None:
    for job in ("request", "status", "extract"):
        flow.quick(f"async_export/{job}.pull")
    assert flow.quick("async_export/extract.pull").status is RunStatus.NOTHING_DUE
    for job in ("request", "status", "extract"):
        report = flow.quick(f"async_export/{job}.pull", now="2024-01-11T12:00:00Z")
    assert (report.status, report.rows) == (RunStatus.SUCCESS, len(CONTACTS))
    assert len(flow.rows("contacts")) == 2 * len(CONTACTS)


DAILY = [f"incremental_export/{job}.pull" for job in ("request", "status", "download")]


def test_each_day_is_exported_waited_for_and_read_once(flow: Flow, acme: Acme) -> None:
    for job in DAILY:
        report = flow.quick(job)
    assert report.units.planned == 5
    filters = {str(asked.sent["filter"]) for asked in acme.asked if asked.sent}
    assert "updated >= 2024-01-09 and updated < 2024-01-10" in filters
    assert len(filters) == 5
    assert Counter(str(row["day"]) for row in flow.rows("day_contacts")) == {
        f"2024-01-0{day}": len(CONTACTS) for day in range(5, 10)
    }
    assert [flow.quick(job).status for job in DAILY] == [RunStatus.NOTHING_DUE] * 3

    asked = len(acme.asked)
    for job in DAILY:
        report = flow.quick(job, now="2024-01-12T12:00:00Z")
    assert report.units.planned == 2
    (first, second) = [asked.sent["filter"] for asked in acme.asked[asked:] if asked.sent]
    assert {first, second} == {
        "updated >= 2024-01-10 and updated < 2024-01-11",
        "updated >= 2024-01-11 and updated < 2024-01-12",
    }


def test_an_export_that_was_not_ready_is_read_by_the_next_flow(flow: Flow, acme: Acme) -> None:
    flow.quick(DAILY[0])
    acme.end = "failed"
    assert flow.quick(DAILY[1]).status is RunStatus.FAILED
    acme.end = "ready"
    later = "2024-01-11T12:00:00Z"
    for job in DAILY:
        report = flow.quick(job, now=later)
    assert report.units.planned == 6
    days = [str(row["day"]) for row in flow.rows("day_contacts")]
    assert len(set(days)) == 6
    assert len(days) == 6 * len(CONTACTS)

    day = {
        "name": "system",
        "type": "datetime",
        "range": {"from": "2024-01-05", "to": "2024-01-06"},
    }
    again = {"ms__backfill": "true", "ms__watermark": json.dumps([day])}
    assert flow.quick(DAILY[0], now=later, **again).units.planned == 1
    assert [flow.quick(job, now=later).units.planned for job in DAILY[1:]] == [1, 1]


def test_an_export_that_fails_ends_the_flow_at_its_status(flow: Flow, acme: Acme) -> None:
    flow.quick("async_export/request.pull")
    acme.end = "failed"
    report = flow.quick("async_export/status.pull")
    assert report.status is RunStatus.FAILED
    assert "failCondition" in report.failures[0].error
    assert flow.rows("export_status") == []


def test_a_survey_that_is_new_is_read_from_the_first_month_on(flow: Flow, acme: Acme) -> None:
    flow.quick("two_step/surveys.pull")
    flow.quick("two_step/answers.pull")
    acme.surveys["5"] = "active"
    flow.quick("two_step/surveys.pull")
    report = flow.quick("two_step/answers.pull")
    assert report.units.planned == 13 + 3, "all months of 5, and the grace of the others"
    answers = [row["answerId"] for row in flow.rows("answers")]
    assert len(answers) == len(set(answers)) == 4 * DAYS_UNTIL_NOW


def test_files_of_a_list_are_downloaded_once_and_unpacked(flow: Flow, acme: Acme) -> None:
    flow.quick("two_step/files.pull")
    report = flow.quick("two_step/download.pull")
    assert (report.status, report.rows) == (RunStatus.SUCCESS, 3)
    found = {path.name: path.read_text() for path in (flow.lake / "files/outbound").iterdir()}
    assert found == {Path(name).stem: text for name, text in acme.files.items()}

    acme.files["outbound/sales_20240108.csv.gz"] = "id,amount\n8-0,1\n"
    later = "2024-01-11T12:00:00Z"
    flow.quick("two_step/files.pull", now=later)
    report = flow.quick("two_step/download.pull", now=later)
    assert [uri.rpartition("/")[2] for uri in report.files] == ["sales_20240108.csv"]


def test_an_export_can_be_downloaded_as_one_file(flow: Flow) -> None:
    for job in ("request", "status", "download"):
        report = flow.quick(f"async_export/{job}.pull")
    (uri,) = report.files
    (file,) = (flow.lake / "exports").iterdir()
    assert file.as_uri() == uri
    assert len(file.read_text().splitlines()) == 1 + len(CONTACTS)


def test_a_backfill_reads_its_period_again_and_leaves_the_rest_alone(
    flow: Flow, acme: Acme
) -> None:
    flow.quick("two_step/surveys.pull")
    flow.quick("two_step/answers.pull")
    before = {row["answerId"]: row["loadedAt"] for row in flow.rows("answers")}
    asked = len(acme.asked)

    later = "2024-01-10T18:00:00Z"
    assert flow.quick("backfill/answers.pull", now=later).units.planned == 3 * 2
    rows = flow.rows("answers")
    again = {row["answerId"] for row in rows if row["loadedAt"] != before[row["answerId"]]}
    assert len(rows) == len(before)
    assert len(again) == 2 * (31 + 30 + 31)
    assert {name[:9] for name in again} == {
        f"{s}-2023{m}" for s in (17, 28) for m in ("03", "04", "05")
    }
    assert len(acme.asked) == asked + 6
    assert flow.quick("two_step/answers.pull", now=later).units.planned == 3


def test_each_page_begins_after_the_last_row_of_the_page_before(flow: Flow, acme: Acme) -> None:
    assert flow.quick("last_row/customers.pull").rows == len(CUSTOMERS)
    asked = [each.query.get("starting_after") for each in acme.asked]
    assert asked == [None, "cus_0099", "cus_0199"]
    assert flow.rows("customers") == CUSTOMERS


@pytest.fixture
def change_feed(flow: Flow) -> list[Path]:
    """Return the jobs of the flow, in a copy: the second one reads the first as it is written."""
    folder = flow.home / "change_feed"
    shutil.copytree(PATTERNS / "change_feed", folder)
    shared = (PATTERNS / "project.properties").read_text(encoding="utf-8")
    moved = "".join(f"{name}={value}\n" for name, value in flow.moved().items())
    (flow.home / "project.properties").write_text(f"{shared}{moved}", encoding="utf-8")
    start = flow.lake / "position" / "start.json"
    start.parent.mkdir(parents=True)
    start.write_text('{"seq": 0}\n', encoding="utf-8")
    return [folder / "changes.pull", folder / "position.pull"]


def items(flow: Flow) -> dict[str, object]:
    """Return the documents of the items that the table has."""
    rows = pq.read_table(flow.lake / "changes").to_pylist()
    return {row["id"]: json.loads(row["doc"]) for row in rows}


def test_changes_are_followed_from_where_the_published_rows_end(
    flow: Flow, acme: Acme, change_feed: list[Path]
) -> None:
    for job in change_feed:
        assert flow.quick(job).status is RunStatus.SUCCESS
    expected = {item: each["doc"] for item, each in acme.changes.items()}
    assert items(flow) == expected

    acme.change("item-7", {"price": 0})
    acme.change("item-8", None)
    acme.change("item-251", {"price": 1})
    asked = len(acme.asked)
    for job in change_feed:
        report = flow.quick(job, now="2024-01-10T12:10:00Z")
        assert report.status is RunStatus.SUCCESS
    assert [each.query["since"] for each in acme.asked[asked:]] == ["250", "253"]
    del expected["item-8"]
    assert items(flow) == {**expected, "item-7": {"price": 0}, "item-251": {"price": 1}}


def test_a_flow_that_ended_between_its_jobs_reads_the_same_changes_again(
    flow: Flow, acme: Acme, change_feed: list[Path]
) -> None:
    changes, position = change_feed
    flow.quick(changes)
    before = items(flow)
    acme.change("item-9", {"price": 9})

    assert flow.quick(changes, now="2024-01-10T12:10:00Z").rows == 250
    assert flow.quick(position, now="2024-01-10T12:10:00Z").status is RunStatus.SUCCESS
    assert items(flow) == {**before, "item-9": {"price": 9}}


def test_the_position_to_begin_from_stays_until_there_are_changes(
    flow: Flow, acme: Acme, change_feed: list[Path]
) -> None:
    changes, position = change_feed
    assert flow.quick(position).status is RunStatus.NOTHING_DUE
    assert flow.quick(changes).rows == 250
    assert acme.asked[0].query["since"] == "0"


def test_too_many_refused_rows_fail_the_last_job_of_the_flow(flow: Flow) -> None:
    for job in ("batch", "send"):
        flow.quick(f"egress/{job}.pull")
    rule = {"threshold": 4, "criteria": "fail", "errorColumn": "error"}
    report = flow.quick("egress/validate.pull", ms__validation__attributes=json.dumps(rule))
    assert report.status is RunStatus.FAILED
    assert "18 of 450 expected rows (4 %)" in report.failures[0].error


def test_a_flow_waits_until_there_is_something_and_fails_when_nothing_comes(
    flow: Flow, acme: Acme
) -> None:
    report = flow.quick("status_check/require.pull")
    assert report.status is RunStatus.FAILED
    assert paths_of(acme, "GET") == ["/v1/conversions:results"] * 11

    for job in ("egress/batch", "egress/send", "status_check/require"):
        assert flow.quick(f"{job}.pull").status is RunStatus.SUCCESS


def test_a_job_that_needs_what_was_not_run_says_which_path_is_missing(flow: Flow) -> None:
    with pytest.raises(DilError, match=r"lake/surveys does not exist"):
        flow.quick("two_step/answers.pull")
