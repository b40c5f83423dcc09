"""``dil preview`` and ``dil check`` against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil.cli.main import main
from dil.observe.report import report_text
from tests.jobs import write_job
from tests.servers.http_server import Fault, HttpServer
from tests.servers.rows import DAY_MS, START_MS, Dataset
from tests.stories import Story

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


def test_names_that_no_schema_can_hold_are_named_with_the_property_that_renames_them(
    tmp_path, capsys
):
    (tmp_path / "in").mkdir()
    rows = '{"id": 1, "a-b": {"ü": 2}, "l": [{"2x": 3}]}\n'
    (tmp_path / "in" / "a.jsonl").write_text(rows, encoding="utf-8")
    job = tmp_path / "names.conf"
    job.write_text(
        "job.name=names\nextract.table.name=names\nsource.class=file\nms.source.uri=in\n"
        f"ms.extractor.class=json\ndata.publisher.final.dir={tmp_path}/lake\n",
        encoding="utf-8",
    )
    assert main(["preview", str(job)]) == 0
    printed = capsys.readouterr().out
    assert "can hold: a-b, a-b.ü, l.2x\n" in printed

    _, _, cleansing = printed.strip().rpartition("preview again: ")
    job.write_text(job.read_text(encoding="utf-8") + cleansing + "\n", encoding="utf-8")
    assert main(["preview", str(job)]) == 0
    printed = capsys.readouterr().out
    schema = printed[printed.index("ms.output.schema=") :]
    job.write_text(job.read_text(encoding="utf-8") + schema, encoding="utf-8")
    assert main(["preview", str(job), "--json"]) == 0
    assert told(capsys)["rows"] == [{"id": 1, "a_b": {"_": 2}, "l": [{"_2x": 3}]}]


def test_texts_of_iso_8601_are_proposed_as_timestamps_that_the_pasted_job_reads(tmp_path, capsys):
    rows = "id,day,at\n2024-01-01,2024-03-05,2024-03-05T01:02:03.5Z\n2024-01-02,,\n"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(rows, encoding="utf-8")
    job = tmp_path / "days.conf"
    job.write_text(
        "job.name=days\nextract.table.name=days\nsource.class=file\nms.source.uri=in\n"
        'ms.extractor.class=csv\nms.csv={"columnHeaderIndex": 0}\n'
        "extract.primary.key.fields=id\nwriter.output.format=PARQUET\n"
        f"data.publisher.final.dir={tmp_path}/lake\n",
        encoding="utf-8",
    )
    assert main(["preview", str(job)]) == 0
    printed = capsys.readouterr().out
    assert "# their texts are ISO 8601; string keeps them as they are: day, at" in printed

    schema = printed[printed.index("ms.output.schema=") :]
    job.write_text(job.read_text(encoding="utf-8") + "\n" + schema, encoding="utf-8")
    assert main(["preview", str(job), "--json"]) == 0
    shown = told(capsys)
    types = {each["columnName"]: each["dataType"]["type"] for each in shown["schema"]}
    assert types == {"id": "string", "day": "date", "at": "timestamp"}
    assert shown["rows"][0]["at"].startswith("2024-03-05T01:02:03.5")


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


PLUGIN = """
from dil.spi.connector import ByteSession, Connector


class Broken(Connector):
    def open(self, context):
        return Session()


class Session(ByteSession):
    def fetch(self, values):
        return values.variables["nothing of this name"]
"""


def test_a_defect_of_a_plug_in_names_its_file_and_line(tmp_path, capsys):
    (tmp_path / "broken_api.py").write_text(PLUGIN)
    job = write_job(tmp_path, "http://127.0.0.1:9", source__class="broken_api:Broken")
    assert main(["preview", str(job), *NOW]) == 1
    shown = capsys.readouterr().err
    assert f"KeyError: 'nothing of this name' ({tmp_path}/broken_api.py:12, in fetch)" in shown
    assert "DIL-PLUGIN" in shown
    assert "internal error" not in shown


ASKED = """
    @classmethod
    def changes(cls, job):
        return {}["x"]

    def open("""


def test_a_defect_in_what_the_driver_asks_a_plug_in_is_no_internal_error(tmp_path, capsys):
    (tmp_path / "broken_question.py").write_text(PLUGIN.replace("    def open(", ASKED[1:]))
    job = write_job(tmp_path, "http://127.0.0.1:9", source__class="broken_question:Broken")
    assert main(["preview", str(job), *NOW]) == 1
    shown = capsys.readouterr().err
    assert f"KeyError: 'x' ({tmp_path}/broken_question.py:8, in changes)" in shown
    assert "internal error" not in shown


def test_a_defect_in_the_check_of_a_plug_in_is_a_finding_with_file_and_line(tmp_path, capsys):
    check = ASKED[1:].replace("changes(cls, job)", "check(cls, properties)")
    (tmp_path / "broken_check.py").write_text(PLUGIN.replace("    def open(", check))
    job = write_job(tmp_path, "http://127.0.0.1:9", source__class="broken_check:Broken")
    assert main(["validate", str(job)]) == 2
    told_of = "".join(capsys.readouterr())
    assert f"KeyError: 'x' ({tmp_path}/broken_check.py:8, in check)" in told_of


def test_a_check_refuses_a_dataset_of_another_job_as_a_run_does(source, tmp_path, capsys):
    story = Story(tmp_path / "first", source, data__publisher__final__dir=str(tmp_path / "lake"))
    assert story.run(START_MS + DAY_MS).exit_code == 0
    job = write_job(
        tmp_path / "second",
        source.url,
        job__name="others",
        ms__publish__mode="replace",
        data__publisher__final__dir=str(tmp_path / "lake"),
    )
    assert main(["check", str(job), *NOW]) == 2
    shown = capsys.readouterr().err
    assert "belongs to job orders" in shown
    assert f"{job}:" in shown


def test_a_check_refuses_another_final_dir_than_the_rows_are_in(source, tmp_path, capsys):
    story = Story(tmp_path, source)
    assert story.run(START_MS + DAY_MS).exit_code == 0
    job = write_job(tmp_path, source.url, data__publisher__final__dir=str(tmp_path / "elsewhere"))
    assert main(["check", str(job), *NOW]) == 2
    assert "rows that count as published would be missing here" in capsys.readouterr().err


def test_a_check_refuses_partitions_that_would_read_everything_again(source, tmp_path, capsys):
    story = Story(tmp_path, source)
    assert story.run(START_MS + DAY_MS).exit_code == 0
    job = write_job(tmp_path, source.url, ms__work__unit__partition="hourly")
    assert main(["check", str(job), *NOW]) == 2
    assert "than runs of orders recorded" in capsys.readouterr().err


WRONG_KEY = {
    "ms__session__key__field": '{"name": "paging.nxet"}',
    "ms__parameters": '[{"name": "unit"}, {"name": "cursor", "type": "session"}, '
    '{"name": "limit", "type": "primitive", "value": 20}]',
}


@pytest.mark.parametrize("command", ["preview", "check"])
def test_a_look_says_where_the_key_of_the_next_page_is_not_found(source, tmp_path, capsys, command):
    job = write_job(tmp_path, source.url, **WRONG_KEY)
    assert main([command, str(job), *NOW]) == 0
    shown = capsys.readouterr().out
    lines = job.read_text().splitlines()
    [line] = [n for n, text in enumerate(lines, 1) if text.startswith("ms.session.key.field=")]
    assert "  warning: ROWS MAY BE MISSING: no response had ms.session.key.field" in shown
    assert f"({job}:{line})" in shown
    assert source.count("/records") == 1


def test_a_look_at_a_page_that_names_the_next_one_asks_for_no_more(source, tmp_path, capsys):
    right = {**WRONG_KEY, "ms__session__key__field": '{"name": "next"}'}
    job = write_job(tmp_path, source.url, **right)
    assert main(["preview", str(job), *NOW, "--json"]) == 0
    assert "MISSING" not in str(told(capsys)["notes"])
    assert source.count("/records") == 1


def test_a_run_that_found_no_key_of_a_next_page_says_so_loudly(source, tmp_path):
    report = Story(tmp_path, source, **WRONG_KEY).run(START_MS + DAY_MS)
    [note] = [each for each in report.notes if "ms.session.key.field" in each]
    assert note.startswith("ROWS MAY BE MISSING: ")
    assert f"({tmp_path / 'orders.conf'}:" in note
    [line] = [each for each in report_text(report).splitlines() if note in each]
    assert line.split()[0] == "warning"


@pytest.mark.parametrize("command", ["preview", "check"])
@pytest.mark.parametrize("is_dated", [True, False])
def test_a_look_shows_dates_only_where_the_job_has_a_range_of_time(
    source, tmp_path, capsys, command, is_dated
):
    undated = {
        "ms__watermark": '[{"name": "unit", "type": "unit", "units": "a,b"}]',
        "ms__work__unit__partition": "none",
        "ms__parameters": '[{"name": "unit"}, {"name": "cursor", "type": "session"}]',
    }
    job = write_job(tmp_path, source.url, **({} if is_dated else undated))
    assert main([command, str(job), *NOW]) == 0
    head = capsys.readouterr().out.splitlines()[1]
    assert head == (
        "  2020-01-01 00:00+00:00 .. 2020-01-02 00:00+00:00 UTC, due now"
        if is_dated
        else "  due now"
    )


def test_a_signature_without_a_request_to_show_names_the_flag_that_shows_signatures(
    source, tmp_path, capsys
):
    job = write_job(tmp_path, source.url)
    assert main(["plan", str(job), *NOW, "--signature", "foo"]) == 2
    assert "--signatures" in capsys.readouterr().err
    assert main(["plan", str(job), *NOW, "--signature", "foo", "--show-request"]) == 2
    assert "`dil plan --all --signatures` names them" in capsys.readouterr().err
