"""Jobs whose secondary input is the output of other jobs, without Spark."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from dil.errors import ConfigError, SourceContractError, SourceError
from dil.model.report import RunStatus
from dil.run.plan_builder import plan_job
from tests.jobs import dataset
from tests.servers.http_server import HttpServer
from tests.stories import Story, day, ids_of

DATED = json.dumps(
    [{"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}}]
)
CANARY = "c4nary/t0ken?+&"


@pytest.fixture(params=["AVRO", "PARQUET", "ORC", "JSON", "CSV"])
def units(request, tmp_path, source) -> Story:
    """A job that publishes the units in each of the formats; the source has them at /units."""
    return Story(
        tmp_path / "units", source,
        job__name="units",
        ms__source__uri=f"{source.url}/units",
        ms__watermark=DATED,
        ms__work__unit__partition="none",
        ms__parameters='[{"name":"x","value":"1"}]',
        ms__output__schema='[{"columnName":"unit","dataType":{"type":"string"}}]',
        ms__publish__mode="replace",
        writer__output__format=request.param,
    )  # fmt: skip


def reader(tmp_path: Path, source: HttpServer, *entries: dict[str, object], **changes) -> Story:
    """A job that reads each day of each activation row; ``unit`` is a member of the rows."""
    return Story(
        tmp_path / "reader", source,
        ms__watermark=DATED,
        ms__secondary__input=json.dumps(entries),
        **changes,
    )  # fmt: skip


def output_of(story: Story) -> str:
    return str(dataset(story.folder))


def test_rows_of_one_job_times_the_days_are_the_work_units_of_another(tmp_path, source, units):
    assert units.run(day(1)).rows == 2
    entry = {"path": output_of(units), "fields": ["unit"]}
    job = reader(tmp_path, source, entry)

    plan = plan_job(job.job(), now_ms=day(3)).plan
    assert [unit.unit_json for unit in plan.work_units] == ['{"unit":"a"}', '{"unit":"b"}'] * 3
    assert [unit.low for unit in plan.work_units] == [
        day(number) for number in range(3) for _ in range(2)
    ]
    assert job.run(day(3)).status is RunStatus.SUCCESS
    assert job.rows() == ids_of("a", "b", days=range(3))
    assert set(job.states()) == {
        f'[watermark.system.{day(number)}, watermark.activation.{{"unit":"{unit}"}}]'
        for number in range(3)
        for unit in "ab"
    }
    assert job.run(day(3)).status is RunStatus.NOTHING_DUE


@pytest.mark.parametrize("units", ["JSON"], indirect=True)
def test_a_new_row_is_a_new_unit_and_the_others_are_not_read_again(tmp_path, source, units):
    units.run(day(1))
    filtered = {"path": output_of(units), "fields": ["unit"], "filters": {"unit": "a"}}
    job = reader(tmp_path, source, filtered)
    job.run(day(2))
    both = job.job(ms__secondary__input=json.dumps([{**filtered, "filters": {}}]))
    report = job.run(day(3), both)
    assert report.units.planned == 4, "one day of a, three of b"
    assert job.rows() == ids_of("a", "b", days=range(3))


@pytest.mark.parametrize("units", ["JSON"], indirect=True)
def test_what_a_run_has_staged_and_not_published_is_not_seen(tmp_path, source, units):
    units.run(day(1))
    folder = Path(output_of(units))
    (folder / "part-of-a-half-publish.json").write_text('{"unit":"c"}\n')
    job = reader(tmp_path, source, {"path": str(folder.parent), "fields": ["unit"]})
    assert len(plan_job(job.job(), now_ms=day(1)).plan.work_units) == 2


def test_no_rows_are_no_work_units_and_the_report_says_why(tmp_path, source):
    (tmp_path / "empty").mkdir()
    job = reader(tmp_path, source, {"path": str(tmp_path / "empty"), "fields": ["unit"]})
    report = job.run(day(2))
    assert report.status is RunStatus.NOTHING_DUE
    assert "activation input has no rows" in " ".join(report.notes)
    assert source.requests == []


def test_a_missing_path_fails_the_run_before_any_request_and_leaves_the_state_alone(
    tmp_path, source
):
    job = reader(tmp_path, source, {"path": "../not/there", "fields": ["unit"]})
    for _ in range(2):
        with pytest.raises(SourceError, match=r"not/there does not exist"):
            job.run(day(2))
    with pytest.raises(SourceError, match=r"not/there does not exist"):
        plan_job(job.job(), now_ms=day(2))
    assert (source.requests, job.states()) == ([], {})


def test_a_run_waits_for_input_that_is_to_come_and_a_plan_does_not(tmp_path, source):
    entry = {"path": "../late.json", "fields": ["unit"], "retry": {"delayInSec": 7}}
    job = reader(tmp_path, source, entry)
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        (tmp_path / "late.json").write_text('{"unit":"a"}\n{"unit":"a"}\n')

    with pytest.raises(SourceError):
        plan_job(job.job(), now_ms=day(1))
    report = job.run(day(1), sleep=sleep)
    assert (report.status, waited) == (RunStatus.SUCCESS, [7])
    assert job.rows() == ids_of("a", days=range(1))
    assert "1 row left out" in " ".join(report.notes)


def token_job(tmp_path: Path, source: HttpServer, **changes: str) -> Story:
    (tmp_path / "token.json").write_text(json.dumps({"t": CANARY, "unit": "b"}) + "\n")
    bearer = json.dumps({"method": "bearer", "encryption": "none", "token": "{{t}}"})
    return reader(
        tmp_path, source,
        {
            "path": "../token.json", "fields": ["t", "unit"], "category": "authentication",
            "retry": {"delayInSec": 0, "retryCount": 1},
        },
        {"path": "../ids.json", "fields": ["unit"]},
        **{"ms__authentication": bearer, **changes},
    )  # fmt: skip


def test_authentication_fields_are_variables_of_every_unit_and_not_part_of_its_signature(
    tmp_path, source
):
    (tmp_path / "ids.json").write_text('{"unit":"a"}\n')
    job = token_job(tmp_path, source)
    assert job.run(day(1)).status is RunStatus.SUCCESS
    (signature,) = job.states()
    assert signature.endswith('watermark.activation.{"unit":"a"}]')
    (request,) = source.requests
    assert request.headers["Authorization"] == f"Bearer {CANARY}"
    # unit is declared in ms.parameters, so what replaces it is sent; t is not (rule G32).
    assert dict(request.query)["unit"] == "b"
    assert "t" not in dict(request.query)


def test_what_authentication_input_gives_is_in_no_file_report_or_log(tmp_path, source, caplog):
    caplog.set_level("DEBUG", logger="dil")
    (tmp_path / "ids.json").write_text('{"unit":"a"}\n')
    job = token_job(tmp_path, source, ms__source__uri=f"{source.url}/records?k={{{{t}}}}")
    forms = (CANARY, base64.b64encode(CANARY.encode()).decode(), "c4nary")
    for now, token, status in (
        (day(1), CANARY, RunStatus.SUCCESS), (day(2), "another", RunStatus.FAILED),
    ):  # fmt: skip
        source.state.token = token
        report = job.run(now)
        assert report.status is status
        for text in (repr(report), caplog.text):
            assert not any(form in text for form in forms)
    sent = {request.headers["Authorization"] for request in source.requests}
    assert sent == {f"Bearer {CANARY}"}
    looked_into = [path for path in (tmp_path / "reader").rglob("*") if path.is_file()]
    assert len(looked_into) > 3
    for path in looked_into:
        assert not any(form.encode() in path.read_bytes() for form in forms), path


def test_two_tokens_fail_the_run_before_any_request(tmp_path, source):
    (tmp_path / "ids.json").write_text('{"unit":"a"}\n')
    job = token_job(tmp_path, source)
    with (tmp_path / "token.json").open("a") as stream:
        stream.write('{"t":"2","unit":"b"}\n')
    with pytest.raises(SourceContractError, match="has more than one row"):
        job.run(day(1))
    assert source.requests == []


def test_encrypted_ids_are_sent_in_plain_and_recorded_encrypted(tmp_path, source):
    # The published vector (rule S2).
    cipher = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"
    (tmp_path / "master").write_text("testkey\n")
    (tmp_path / "ids.json").write_text(json.dumps({"unit": cipher}) + "\n")
    entry = {"path": "../ids.json", "fields": ["unit"], "encrypted": True}
    job = reader(tmp_path, source, entry, encrypt__key__loc="../master")
    job.run(day(1))
    assert {dict(request.query)["unit"] for request in source.requests} == {"password"}
    (signature,) = job.states()
    assert cipher in signature


@pytest.mark.parametrize("others", [[], [{"path": "../more.json", "fields": ["unit"]}]])
def test_encrypted_ids_of_a_saved_plan_are_opened_although_the_input_lost_them(
    tmp_path, source, others
):
    cipher = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"
    (tmp_path / "master").write_text("testkey\n")
    (tmp_path / "more.json").write_text("")
    (tmp_path / "ids.json").write_text(json.dumps({"unit": cipher}) + "\n")
    entry = {"path": "../ids.json", "fields": ["unit"], "encrypted": True}
    job = reader(tmp_path, source, entry, *others, encrypt__key__loc="../master")
    saved = plan_job(job.job(), now_ms=day(1))
    ids = (tmp_path / "ids.json").read_text()
    (tmp_path / "ids.json").write_text('{"unit":"a"}\n')
    if others:  # nothing shows from which of the two the unit came
        with pytest.raises(SourceContractError):
            job.run(day(1), plan=saved)
        assert source.requests == []
        (tmp_path / "ids.json").write_text(ids)  # now the input shows it
    job.run(day(1), plan=saved)
    assert {dict(request.query)["unit"] for request in source.requests} == {"password"}


def test_a_row_with_the_ciphertext_of_another_secret_has_nothing_decrypted(tmp_path, source):
    cipher = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"
    (tmp_path / "master").write_text("testkey\n")
    (tmp_path / "ids.json").write_text(json.dumps({"unit": cipher}) + "\n")
    entry = {"path": "../ids.json", "fields": ["unit"]}
    job = reader(tmp_path, source, entry, encrypt__key__loc="../master")
    job.run(day(1))
    assert {dict(request.query)["unit"] for request in source.requests} == {cipher}


def test_variables_of_secondary_input_count_as_declared_and_others_do_not(tmp_path, source):
    (tmp_path / "ids.json").write_text('{"unit":"a"}\n')
    job = token_job(tmp_path, source, ms__source__uri=f"{source.url}/{{{{unit}}}}/{{{{t}}}}")
    job.job()
    with pytest.raises(ConfigError, match=r"\{\{nobody\}\}, which nothing gives a value"):
        job.job(ms__source__uri=f"{source.url}/{{{{nobody}}}}")
