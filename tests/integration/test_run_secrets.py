"""A canary as credentials: it reaches the source, and nothing else."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

import dil.submit
from tests.integration.dil_processes import dil_alone
from tests.jobs import ROOT, visible_files, write_job
from tests.marks import some_long
from tests.servers.class_archive import quick_start
from tests.servers.http_server import HttpServer, Reply
from tests.servers.rows import DAY_MS, Dataset
from tests.servers.spark_cluster import SPARK_HOME
from tests.servers.spark_python import quick_python

pytestmark = pytest.mark.spark

CANARY = "c4nary/T0k+en=&?ü 9"
HEADER = "c4naryHeaderT0ken"
ENVIRON = {"DIL_TEST_CANARY": CANARY, "DIL_TEST_TOKEN": HEADER}
NOW = "2020-01-03T00:00:00Z"


def forms(secret: str) -> Iterator[bytes]:
    """Yield the secret as it is, as URLs and JSON hold it, and as base64 at each offset."""
    yield secret.encode()
    yield secret.encode("latin-1")
    for text in (
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
    ):
        yield text.encode()
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + secret.encode())
        yield whole[4 if offset else 0 : -4]


# Their beginning as well: a secret that is masked in part is not masked.
FORMS = {b"c4nary", *(form for secret in (CANARY, HEADER) for form in forms(secret))}


@pytest.fixture
def source():
    dataset = Dataset.generate(8, units=("a", "b"), step_ms=DAY_MS // 4)
    with HttpServer(dataset, token=HEADER) as server:
        yield server


@pytest.fixture
def job(tmp_path, source):
    # The password is no credential of this source, it goes into the address.
    return write_job(
        tmp_path,
        source.url,
        ms__source__uri=f"{source.url}/records?key={{{{password}}}}",
        source__conn__password="env:DIL_TEST_CANARY",
        ms__authentication=json.dumps(
            {"method": "bearer", "encryption": "none", "token": "env:DIL_TEST_TOKEN"}
        ),
        ms__parameters=json.dumps(
            [
                {"name": "unit"},
                {"name": "since", "type": "watermark", "value": "low"},
                {"name": "until", "type": "watermark", "value": "high"},
                {"name": "password", "value": "env:DIL_TEST_CANARY"},
            ]
        ),
        ms__session__key__field="{}",
        writer__codec__type="NOCOMPRESSION",
    )


def assert_clean(name: str, data: bytes) -> None:
    for form in FORMS:
        at = data.find(form)
        assert at < 0, f"{name} holds the secret as {form!r}: {data[max(0, at - 60) : at + 60]!r}"


def assert_folder_is_clean(folder: Path) -> set[str]:
    """Look into every file below; return the kinds of files that were looked into."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    for path in found:
        assert_clean(str(path), path.read_bytes())
    return {path.suffix or path.name for path in found}


def assert_source_got_it(source) -> None:
    """Make sure that the canary was in use at all."""
    first = source.requests[0]
    assert first.headers["Authorization"] == f"Bearer {HEADER}"
    assert dict(first.query)["key"] == CANARY


def test_a_submitted_run_keeps_its_secrets_from_the_event_log_and_all_files(
    job, source, tmp_path
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    python = str(quick_python(tmp_path, ROOT))
    options = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.driver.extraJavaOptions": quick_start(),
        "spark.ui.enabled": "false",
        "spark.pyspark.python": python,
        "spark.pyspark.driver.python": python,
    }
    conf = [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", *conf, dil.submit.__file__,
         job, "-v", "--now", NOW, "--report", tmp_path / "report.json"],
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, **ENVIRON, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr.decode()
    assert_source_got_it(source)
    assert len(visible_files(tmp_path)) == 4
    assert_clean("stdout", done.stdout)
    assert_clean("stderr", done.stderr)
    log = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
    assert b"SparkListenerTaskEnd" in log
    kinds = assert_folder_is_clean(tmp_path)
    assert {".db", ".json", ".parquet", ".conf"} <= kinds


@pytest.mark.parametrize("log", some_long(["text", "json"], "json"))
def test_an_answer_that_echoes_the_secret_is_masked_everywhere(job, source, tmp_path, log) -> None:
    echo = json.dumps(
        {
            "error": f"no entry for {HEADER} with {CANARY}",
            "quoted": quote(CANARY, safe=""),
            "basic": base64.b64encode(f"user:{CANARY}".encode()).decode(),
        },
        ensure_ascii=False,
    ).encode()
    good = b'{"data":[{"id":1,"unit":"a","updated_ms":1577836800000}],"next":null}'
    source.script("/records", Reply(good), Reply(echo, 401))

    # What its tasks log goes where the JVM's log goes.
    done = dil_alone(
        "run", job, "--now", NOW, "--json", "--report", tmp_path / "report.json",
        "-D", "taskexecutor.threadpool.size=1", "-v", "--log-format", log, environ=ENVIRON,
    )  # fmt: skip

    assert done.returncode == 1
    assert_source_got_it(source)
    report = json.loads(done.stdout)
    assert {one["code"] for one in report["failures"]} == {"DIL-SRC-AUTH"}
    assert_clean("stdout", done.stdout.encode())
    assert_clean("stderr", done.stderr.encode())
    assert re.search(r"status 401 says: .*no entry for \*\*\* with \*\*\*", done.stderr)
    kinds = assert_folder_is_clean(tmp_path)
    # What succeeded waits in staging: its files are among those looked into.
    assert {".db", ".json", ".parquet"} <= kinds
    assert list(tmp_path.rglob("results-*.jsonl"))
