"""The HTTP connector inside whole jobs: each kind of paging, and what a job file may say."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from connectors.http import HttpConnector
from dil.config import load
from dil.errors import SourceContractError
from dil.extraction.json.extractor import JsonExtractor
from dil.extraction.paging.notes import EMPHASIS, SHORT_PAGE, emphasized
from dil.extraction.paging.walk import Walk, walk_pages
from dil.extraction.parameters import ParameterScope
from dil.model.authentication import Authentication
from dil.model.interval import Interval
from dil.model.secret import Secret
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.connector import SessionContext
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.servers.rows import DAY_MS, START_MS, Dataset


@pytest.fixture
def server():
    with HttpServer(Dataset.generate(240, units=("a", "b"))) as running:
        yield running


JOB = """
job.name=orders
source.class=http
ms.extractor.class=json
ms.source.uri={url}/records?unit={{{{unit}}}}
extract.namespace=shop
extract.table.name=orders
extract.table.type=SNAPSHOT_ONLY
ms.data.field=data
data.publisher.final.dir={folder}
ms.watermark=[{{"name":"t","type":"datetime","range":{{"from":"2020-01-01","to":"2020-01-02"}}}},\
{{"name":"unit","type":"unit","units":"a,b"}}]
ms.timezone=UTC
"""
PAGINGS = {
    "cursor": """
ms.parameters=[{"name":"since","type":"watermark","value":"low"},\
{"name":"until","type":"watermark","value":"high"},{"name":"cursor","type":"session"}]
ms.session.key.field={"name":"next"}
""",
    "offset": """
ms.parameters=[{"name":"offset","type":"pagestart"},{"name":"limit","type":"pagesize"}]
ms.pagination={"initialvalues":[0,70]}
""",
    "page": """
ms.parameters=[{"name":"page","type":"pageno"},{"name":"limit","type":"primitive","value":70}]
ms.pagination={"fields":["","","page"],"initialvalues":[0,0,1]}
ms.total.count.field=total
""",
}


def loaded(tmp_path, url, more):
    path = tmp_path / "orders.conf"
    path.write_text(JOB.format(url=url, folder=tmp_path / "out") + more)
    return load(path, environ={}).job


def walked(job, **members):
    partition = Interval(START_MS, START_MS + DAY_MS)
    unit = WorkUnit("s", partition.low, partition.high, partition, "u", '{"unit":"a"}', Reason.NEW)
    context = SessionContext(job, unit, "r1", 0, 1, **members)
    walk = Walk(job.extraction, ParameterScope.of(unit, full_extract=True), time)
    with HttpConnector().open(context) as session:
        extractor = JsonExtractor(job.extraction)
        rows = [
            row
            for page, _ in walk_pages(session, extractor, walk)
            for batch in page.batches
            for row in batch.to_pylist()
        ]
    return rows, walk


@pytest.mark.parametrize(("paging", "requests_sent"), [("cursor", 3), ("offset", 5), ("page", 4)])
@pytest.mark.parametrize("compress", [False, True])
def test_every_row_is_read_once_with_each_kind_of_paging(tmp_path, paging, requests_sent, compress):
    with HttpServer(Dataset.generate(240, units=("a", "b")), compress=compress) as server:
        rows, walk = walked(loaded(tmp_path, server.url, PAGINGS[paging]))
    assert [row["id"] for row in rows] == list(range(240))
    assert {row["unit"] for row in rows} == {"a"}
    assert walk.progress.asked == requests_sent
    assert walk.progress.bytes > 240 * 200


START_ALONE = """
ms.parameters=[{"name":"offset","type":"pagestart"},{"name":"limit","type":"primitive","value":70}]
ms.pagination={"initialvalues":[0]}
"""
ECHOED = """
ms.parameters=[{"name":"offset","type":"pagestart"},{"name":"limit","type":"pagesize"}]
ms.pagination={"initialvalues":[0,70],"fields":["offset","limit"]}
"""


def test_pages_below_the_asked_size_are_told_or_followed_row_by_row(tmp_path):
    with HttpServer(Dataset.generate(240, units=("a",)), most=50) as server:
        rows, walk = walked(loaded(tmp_path, server.url, PAGINGS["offset"]))
        assert [row["id"] for row in rows][48:52] == [48, 49, 70, 71]
        assert [emphasized(note) for note in walk.progress.notes] == [EMPHASIS + SHORT_PAGE]
        for paging in (START_ALONE, ECHOED):
            rows, walk = walked(loaded(tmp_path, server.url, paging))
            assert [row["id"] for row in rows] == list(range(240))
            assert walk.progress.notes == []


def test_a_repeated_cursor_of_a_real_source_fails(tmp_path, server):
    server.faults.append(Fault("repeat_cursor", at=(2, 3)))
    with pytest.raises(SourceContractError):
        walked(loaded(tmp_path, server.url, PAGINGS["cursor"]))


def test_an_error_page_with_status_200_fails(tmp_path, server):
    server.faults.append(Fault("body", text="<html>login</html>"))
    with pytest.raises(SourceContractError) as caught:
        walked(loaded(tmp_path, server.url, PAGINGS["cursor"]))
    assert "/records" in caught.value.message


def test_a_required_token_is_sent(tmp_path):
    more = PAGINGS["cursor"] + (
        'ms.authentication={"method":"bearer","encryption":"none","token":"t0ken"}\n'
    )
    with HttpServer(Dataset.generate(3, units=("a",)), token="t0ken") as server:
        rows, _ = walked(loaded(tmp_path, server.url, more))
    assert len(rows) == 3


POSTED = """
ms.http.request.method=post
ms.http.request.headers={"X-Token":"{{token}}"}
ms.parameters=[{"name":"filter","type":"object","value":[{"name":"unit","value":"{{unit}}"}]},\
{"name":"token","value":"stale"},{"name":"cursor","type":"session"}]
ms.session.key.field={"name":"next"}
ms.secondary.input=[{"path":"token","category":"authentication","fields":["token"],\
"retry":{"delayInSec":0,"retryCount":1}}]
"""


def test_a_job_that_asks_by_post_pages_in_the_body_and_renews_its_token(tmp_path, server):
    server.script(
        "/records",
        Reply(b'{"data":[{"id":1}],"next":"c1"}'),
        Reply(status=401),
        Reply(b'{"data":[{"id":2}],"next":null}'),
    )
    rows, _ = walked(loaded(tmp_path, server.url, POSTED), renewed=lambda: {"token": Secret("new")})
    assert [row["id"] for row in rows] == [1, 2]
    sent = [(each.headers["X-Token"], json.loads(each.body)) for each in server.requests]
    first = {"filter": {"unit": "a"}}
    second = {**first, "cursor": "c1"}
    assert sent == [("stale", first), ("stale", second), ("new", second)]


def test_check_reports_a_wrong_uri_and_missing_credentials(tmp_path):
    good = loaded(tmp_path, "http://h", PAGINGS["cursor"]).properties
    assert list(HttpConnector.check(good)) == []
    authentication = Authentication(method="basic", encryption="base64")
    bad = good.having("ms.source.uri", "ftp://h/x").having("ms.authentication", authentication)
    keys = [problem.key for problem in HttpConnector.check(bad)]
    assert keys == ["ms.source.uri", "ms.authentication"]


def test_the_server_runs_as_a_process_of_its_own():
    script = Path(__file__).parents[1] / "servers" / "http_server.py"
    command = [sys.executable, str(script), "--rows", "5", "--units", "x"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) as process:
        try:
            facts = process.stdout.readline()
            with requests.Session() as client:
                client.trust_env = False
                url = json.loads(facts)["url"]
                page = client.get(f"{url}/records?unit=x&limit=3", timeout=10).json()
                assert (len(page["data"]), page["total"], page["next"]) == (3, 5, "c3")
                fault = [{"kind": "status", "status": 503, "at": [1]}]
                client.post(f"{url}/_faults", json=fault, timeout=10)
                assert client.get(f"{url}/records", timeout=10).status_code == 503
                assert client.get(f"{url}/records", timeout=10).status_code == 200
                assert len(client.get(f"{url}/log", timeout=10).json()["requests"]) == 3
        finally:
            process.terminate()
