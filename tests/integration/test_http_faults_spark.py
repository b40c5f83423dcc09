"""The fault matrix of HTTP on Spark: all kinds at once, with the connector's own waits."""

from __future__ import annotations

import pytest

from tests.integration.dil_processes import dil, report_of
from tests.integration.http_fault_jobs import JOB, ROWS, held, published, watermark
from tests.jobs import write_job
from tests.servers import faulty_acts as acts
from tests.servers.faulty_server import FaultySource, Strike
from tests.servers.rows import DAY_MS, Dataset

NOW = "2020-01-02T00:00:00Z"
ONCE = {
    "limited": acts.refuses(429, Retry_After="1"),
    "reset": acts.resets,
    "cut": acts.resets_in_body,
    "torn": acts.body(lambda good: good[:-30]),
    "down": acts.refuses(503, acts.MAINTENANCE, Content_Type="text/html"),
}
STAYS = {
    "refused": (acts.refuses(404), "DIL-SRC", "404"),
    "broken": (acts.refuses(500), "DIL-SRC-TRANSIENT", "500"),
    "page": (acts.instead(acts.MAINTENANCE), "DIL-SRC-CONTRACT", "not JSON"),
    "circle": (acts.names_cursor(lambda asked: "c5"), "DIL-SRC-CONTRACT", "in circles"),
    "typed": (acts.rows(lambda row: row.update(amount="much")), "DIL-CONVERT", "amount"),
}


@pytest.mark.spark
def test_tasks_heal_or_fail_each_by_its_own_fault_and_the_next_run_brings_the_rest(
    tmp_path,
) -> None:
    units = ("good", *ONCE, *STAYS)
    storm = acts.refuses(429, Retry_After="1")
    changes = {**JOB, **watermark(*units), "source.class": "http", "ms.http.retry.max": "3"}
    with FaultySource(Dataset.generate(ROWS, units=units, step_ms=DAY_MS // ROWS)) as source:
        job = write_job(tmp_path, source.url, **changes)
        source.strikes.extend(Strike(storm, page=1, unit=unit, times=1) for unit in units)
        source.strikes.extend(Strike(act, 3, unit, times=1) for unit, act in ONCE.items())
        source.strikes.extend(Strike(act, 3, unit) for unit, (act, _, _) in STAYS.items())
        done = dil("run", job, "--now", NOW, "--json")
        assert done.returncode == 4, done.stderr
        failures = report_of(done)["failures"]
        told = {
            unit: each for unit in STAYS for each in failures if f'"{unit}"' in each["signature"]
        }
        assert len(failures) == len(told) == len(STAYS)
        for unit, (_, code, words) in STAYS.items():
            assert told[unit]["code"] == code
            assert words in told[unit]["error"]
        everything = held(source)
        assert published(tmp_path) == {unit: everything[unit] for unit in ("good", *ONCE)}

        source.strikes.clear()
        again = dil("run", job, "--now", NOW, "--json")
    assert again.returncode == 0, again.stderr
    assert published(tmp_path) == everything
