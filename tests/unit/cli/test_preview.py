"""``dil preview`` and ``dil check`` against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from tests.jobs import write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import Dataset

NOW = ("--now", "2020-01-03T00:00:00Z")


@pytest.fixture
def source() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(50, units=("a", "b"), step_ms=60_000)) as server:
        yield server


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def without_schema(job: Path) -> Path:
    lines = job.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("ms.output.schema")]
    job.write_text("".join(kept), encoding="utf-8")
    return job


def test_a_preview_shows_the_first_rows_of_the_first_due_work_unit(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url)
    assert main(["preview", str(job), *NOW, "--rows", "4", "--json"]) == 0
    answer = told(capsys)
    assert answer["due"] is True
    assert [row["id"] for row in answer["rows"]] == [0, 1, 2, 3]
    assert source.count("/records") == 1


def test_a_preview_leaves_nothing_behind(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert main(["preview", str(job), *NOW]) == 0
    assert main(["check", str(job), *NOW]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_inferred_columns_can_be_pasted_into_the_job(source, tmp_path, capsys):
    job = without_schema(write_job(tmp_path, source.url))
    assert main(["preview", str(job), *NOW]) == 0
    printed = capsys.readouterr().out
    schema = printed[printed.index("ms.output.schema=") :]
    job.write_text(job.read_text(encoding="utf-8") + "\n" + schema, encoding="utf-8")
    assert main(["validate", str(job)]) == 0
    assert main(["preview", str(job), *NOW]) == 0
    assert "ms.output.schema" not in capsys.readouterr().out


def test_a_work_unit_that_is_not_due_can_be_looked_at(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url)
    main(["plan", str(job), *NOW, "--json"])
    last = told(capsys)["work_units"][-1]["signature"]
    assert main(["preview", str(job), *NOW, "--signature", last, "--json"]) == 0
    assert told(capsys)["signature"] == last


def test_an_unknown_work_unit_is_a_configuration_error(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url)
    assert main(["preview", str(job), *NOW, "--signature", "[x]"]) == 2
    assert "dil plan --all" in capsys.readouterr().err


def test_a_check_tells_what_the_source_answered(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url)
    assert main(["check", str(job), *NOW, "--json"]) == 0
    (request,) = told(capsys)["requests"]
    assert request["status"] == 200
    assert request["content_type"] == "application/json"


def test_a_check_of_a_source_that_refuses_fails_with_its_reason(source, tmp_path, capsys):
    source.faults.append(Fault(kind="status", status=403))
    job = write_job(tmp_path, source.url)
    assert main(["check", str(job), *NOW]) == 1
    assert "403" in capsys.readouterr().err


def test_a_job_that_sends_is_not_looked_at_unless_that_is_said(source, tmp_path, capsys):
    job = write_job(tmp_path, source.url, ms__http__request__method="POST")
    assert main(["preview", str(job), *NOW]) == 2
    assert "--send" in capsys.readouterr().err
    assert source.count("/records") == 0


def test_rows_to_send_are_never_sent_by_a_look(source, tmp_path, capsys):
    rows = [{"path": str(tmp_path / "rows.json"), "fields": ["id"], "category": "payload"}]
    job = write_job(
        tmp_path,
        source.url,
        ms__http__request__method="POST",
        ms__secondary__input=json.dumps(rows),
        ms__session__key__field="",
        ms__parameters='[{"name": "unit"}]',
    )
    assert main(["preview", str(job), *NOW, "--send"]) == 2
    assert "payload" in capsys.readouterr().err
    assert source.count("/records") == 0
