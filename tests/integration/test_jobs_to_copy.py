"""The jobs of docs/ten-jobs.md and docs/own-api.md: each reads what its service documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dil import config
from dil.model.job import Job
from dil.model.report import RunReport
from dil.run.job_run import run_job
from dil.run.options import RunOptions
from dil.run.plan_builder import plan_job
from dil.testing.in_process import InProcessExecutor
from tests.servers.http_server import HttpServer, Reply
from tests.servers.rows import Dataset

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "conf/jobs"
NOW_MS = int(datetime(2024, 1, 2, tzinfo=UTC).timestamp() * 1000)
FENCE = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENVIRON = {
    "DEMO_API": "http://127.0.0.1:9",
    "DEMO_TOKEN": "demo",
    "GITHUB_TOKEN": "g",
    "HOME": "/home/dil",
    "HUBSPOT_TOKEN": "h",
    "JIRA_SITE": "acme",
    "JIRA_TOKEN": "j",
    "JIRA_USER": "me",
    "PARTNER_HOST": "files.example.com",
    "PARTNER_USER": "dil",
    "SHOPIFY_SHOP": "acme",
    "SHOPIFY_TOKEN": "s",
    "SHOP_HOST": "db.example.com",
    "SHOP_PASSWORD": "p",
    "STRIPE_KEY": "k",
    "ZENDESK_SUBDOMAIN": "acme",
    "ZENDESK_TOKEN": "z",
    "ZENDESK_USER": "me",
}
NAMES = sorted(path.stem for path in JOBS.glob("*.conf"))
OF_SERVERS = {
    "postgres_orders",
    "sftp_files",
}  # planned where the server is asked, and run elsewhere


def page(body: object, **headers: str) -> Reply:
    return Reply(json.dumps(body).encode(), headers=tuple(headers.items()))


def link(server: HttpServer, path: str) -> dict[str, str]:
    return {"Link": f'<{server.url}{path}>; rel="next"'}


def issue(number: int) -> dict[str, object]:
    return {"id": number, "updated_at": f"2024-01-01T00:00:0{number}Z"}


def exported(server: HttpServer, tickets: list[dict[str, object]], *, is_end: bool) -> Reply:
    return page({"tickets": tickets, "after_url": f"{server.url}/more", "end_of_stream": is_end})


SCRIPTS: Mapping[str, Callable[[HttpServer], dict[str, list[Reply]]]] = {
    "github_issues": lambda server: {
        "/repos/apache/spark/issues": [page([issue(1)], **link(server, "/more"))],
        "/more": [page([issue(2)])],
        "/repos/linkedin/data-integration-library/issues": [page([issue(3)])],
    },
    "stripe_charges": lambda _: {
        "/v1/charges": [
            page({"data": [{"id": "ch_1"}, {"id": "ch_2"}], "has_more": True}),
            page({"data": [{"id": "ch_3"}], "has_more": False}),
        ]
    },
    "shopify_orders": lambda server: {
        "/admin/api/2024-10/orders.json": [page({"orders": [issue(1)]}, **link(server, "/more"))],
        "/more": [page({"orders": [issue(2), issue(3)]})],
    },
    "hubspot_contacts": lambda _: {
        "/crm/v3/objects/contacts/search": [
            page({"results": [{"id": "1", "updatedAt": "a"}], "paging": {"next": {"after": "1"}}}),
            page({"results": [{"id": n, "updatedAt": "a"} for n in "23"]}),
            page({"results": []}),
        ]
    },
    "zendesk_tickets": lambda server: {
        "/api/v2/incremental/tickets/cursor.json": [exported(server, [issue(1)], is_end=False)],
        "/more": [exported(server, [issue(2), issue(3)], is_end=True)],
    },
    "jira_issues": lambda _: {
        "/rest/api/3/search/jql": [
            page({"issues": [{"id": "1"}], "nextPageToken": "t"}),
            page({"issues": [{"id": "2"}, {"id": "3"}], "isLast": True}),
        ]
    },
    "datasette": lambda server: {
        "/fixtures/facetable.json": [
            page({"rows": [{"id": 1}], "next_url": f"{server.url}/more"}),
        ],
        "/more": [page({"rows": [{"id": 2}, {"id": 3}], "next_url": None})],
    },
    "earthquakes": lambda _: {
        "/fdsnws/event/1/query": [page({"features": [{"id": "a"}, {"id": "b"}, {"id": "c"}]})]
    },
}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(1)) as running:
        yield running


def loaded(name: str, folder: Path, change: Callable[[str], str] = str) -> Job:
    path = folder / f"{name}.conf"
    path.write_text(change((JOBS / path.name).read_text(encoding="utf-8")), encoding="utf-8")
    once = {"task.maxretries": "0"}
    return config.load(path, overrides=once, environ=ENVIRON).job


def run(job: Job) -> RunReport:
    executor = InProcessExecutor()
    return run_job(job, RunOptions(now_ms=NOW_MS, clock=lambda: NOW_MS, executor=executor))


@pytest.mark.parametrize("name", NAMES)
def test_each_job_is_valid_and_has_a_plan(name: str, tmp_path: Path) -> None:
    job = loaded(name, tmp_path)
    if name not in OF_SERVERS:
        assert plan_job(job, now_ms=NOW_MS).plan.work_units


def test_the_page_shows_the_jobs() -> None:
    shown = FENCE.findall((ROOT / "docs/ten-jobs.md").read_text(encoding="utf-8"))
    files = {
        path.read_text(encoding="utf-8") for path in JOBS.glob("*.conf") if path.stem != "own_api"
    }
    assert set(shown) == files


def test_the_last_step_of_the_other_page_is_its_job() -> None:
    job = (JOBS / "own_api.conf").read_text(encoding="utf-8").splitlines()
    steps = FENCE.findall((ROOT / "docs/own-api.md").read_text(encoding="utf-8"))
    shown = [line for step in steps[1:] for line in step.splitlines()]
    assert [line for line in shown if line not in job] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_job_reads_all_pages_of_its_service(
    name: str, server: HttpServer, tmp_path: Path
) -> None:
    for path, replies in SCRIPTS[name](server).items():
        server.script(path, *replies)

    def at_the_server(text: str) -> str:
        return re.sub(r"(?m)^ms\.source\.uri=https://[^/]+", f"ms.source.uri={server.url}", text)

    report = run(loaded(name, tmp_path, at_the_server))

    assert report.status == "success", report.failures
    files = [path for path in (tmp_path / "lake").rglob("*.parquet") if path.name[0] not in "_."]
    ids = [value for path in files for value in pq.read_table(path)["id"].to_pylist()]
    assert len(ids) == len(set(ids)) == 3


def test_contacts_are_read_after_the_last_id_so_that_rows_that_change_move_no_others(
    server: HttpServer, tmp_path: Path
) -> None:
    for path, replies in SCRIPTS["hubspot_contacts"](server).items():
        server.script(path, *replies)
    job = loaded("hubspot_contacts", tmp_path, lambda t: re.sub(r"https://[^/]+", server.url, t))

    run(job)

    bodies = [json.loads(request.body) for request in server.requests]
    assert [body["filterGroups"][0]["filters"][2]["value"] for body in bodies] == ["0", "1", "3"]
    assert not any("after" in body or "tmpLast" in body for body in bodies)


def test_requests_hold_what_the_services_ask_for(server: HttpServer, tmp_path: Path) -> None:
    script = SCRIPTS["jira_issues"](server)
    server.script("/rest/api/3/search/jql", *script["/rest/api/3/search/jql"])
    job = loaded("jira_issues", tmp_path, lambda text: re.sub(r"https://[^/]+", server.url, text))

    run(job)

    first, second = (json.loads(request.body) for request in server.requests)
    assert first["jql"] == (
        "updated >= '2024-01-01 00:00' and updated < '2024-01-02 00:00' order by updated"
    )
    assert "nextPageToken" not in first
    assert second["nextPageToken"] == "t"
