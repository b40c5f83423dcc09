"""Responses become files under names that the source chose, each once and whole."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from dil.model.report import RunReport, RunStatus
from tests.dumps import dump_story, dumped, give, listed, serve
from tests.servers.http_server import Fault, HttpServer, Reply
from tests.stories import day

NOW = day(4)


def only_failure(report: RunReport) -> str:
    assert report.status is RunStatus.FAILED
    (failure,) = report.failures
    return failure.error


def test_each_response_becomes_the_file_of_its_name_and_the_report_lists_it(
    tmp_path: Path, source: HttpServer
) -> None:
    files = {"a.csv": b"id\n1\n", "b.bin": bytes(range(256)) * 40_000}
    for name, body in files.items():
        give(source, name, body)
    story = dump_story(tmp_path, source, *files)
    report = story.run(NOW)
    assert report.status is RunStatus.SUCCESS
    assert dumped(tmp_path) == files
    assert sorted(report.files) == sorted((tmp_path / "lake" / name).as_uri() for name in files)
    assert (report.rows, report.bytes) == (2, sum(map(len, files.values())))
    assert listed(tmp_path) == {name: len(body) for name, body in files.items()}
    assert story.head() is not None
    assert story.staged() == []
    assert story.run(day(5)).status is RunStatus.SUCCESS


def test_a_file_that_was_dumped_is_not_asked_for_again_while_the_period_of_abstinence_lasts(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, a=b"1")
    story = dump_story(tmp_path, source, "a", ms__abstinent__period__days="3650")
    story.run(NOW)
    assert story.run(day(5)).status is RunStatus.NOTHING_DUE
    assert source.count("/files/a") == 1


def test_a_later_run_puts_its_file_in_the_place_of_the_one_of_that_name_and_of_no_other(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, a=b"old a", b=b"old b, longer")
    dump_story(tmp_path, source, "a", "b").run(NOW)
    serve(source, b=b"new b")
    story = dump_story(tmp_path, source, "b")
    report = story.run(day(5), run_id="run-2")
    assert report.status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"a": b"old a", "b": b"new b"}
    assert listed(tmp_path) == {"a": 5, "b": 5}
    head = story.head()
    assert head is not None
    assert "removes" in str(head)


def test_a_name_with_folders_is_rebuilt_below_the_final_directory(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1")
    story = dump_story(
        tmp_path, source, "x", ms__extractor__target__file__name="//home/user//{{name}}.gpg"
    )
    story.run(NOW)
    assert dumped(tmp_path) == {"home/user/x.gpg": b"1"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../{{name}}", "leads out of its folder"),
        ("a/../../{{name}}", "leads out of its folder"),
        ("/", "names no file"),
        ("folder/", "names no file"),
        ("_dil/current.json", "is kept for other things"),
        ("_Staging/{{name}}", "is kept for other things"),
        ("{{nobody}}", "nobody has no value"),
    ],
)
def test_a_name_that_no_file_below_the_directory_can_have_fails_the_work_unit(
    tmp_path: Path, source: HttpServer, name: str, why: str
) -> None:
    serve(source, x=b"1")
    story = dump_story(tmp_path, source, "x", ms__extractor__target__file__name=name)
    assert why in only_failure(story.run(NOW))
    assert dumped(tmp_path) == {}
    assert not (tmp_path / "x").exists()


def test_a_link_in_the_final_directory_does_not_lead_a_file_out_of_it(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to(outside)
    story = dump_story(tmp_path, source, "x", ms__extractor__target__file__name="link/{{name}}")
    assert "link out of" in only_failure(story.run(NOW))
    assert list(outside.iterdir()) == []


def test_a_name_that_is_a_folder_or_lies_below_a_file_fails_before_anything_is_published(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1")
    (tmp_path / "lake" / "x").mkdir(parents=True)
    assert "is a folder" in only_failure(dump_story(tmp_path, source, "x").run(NOW))
    (tmp_path / "lake" / "y").write_text("a file")
    changed = dump_story(tmp_path, source, "x", ms__extractor__target__file__name="y/{{name}}")
    assert "is a file" in only_failure(changed.run(NOW))


def test_a_folder_that_is_a_dataset_of_its_own_is_left_alone(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1")
    (tmp_path / "lake" / "other" / "_dil").mkdir(parents=True)
    story = dump_story(tmp_path, source, "x", ms__extractor__target__file__name="other/{{name}}")
    assert "is another dataset" in only_failure(story.run(NOW))


def test_a_name_that_is_too_long_is_cut_keeps_its_ending_and_stays_different_from_others(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1", y=b"2")
    long = "ä" * 200 + "{{name}}.csv.gz"
    story = dump_story(tmp_path, source, "x", "y", ms__extractor__target__file__name=long)
    report = story.run(NOW)
    found = dumped(tmp_path)
    assert sorted(found.values()) == [b"1", b"2"]
    assert all(len(os.fsencode(name)) <= 255 and name.endswith(".csv.gz") for name in found)
    assert any("longer than 255 bytes" in note for note in report.notes)


def test_two_work_units_with_one_name_are_an_error_and_none_of_them_counts(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1", y=b"2")
    story = dump_story(
        tmp_path,
        source,
        "x",
        "y",
        ms__extractor__target__file__name="same",
        job__commit__policy="successful",
    )
    for _ in range(2):  # another attempt does not make one of them right
        report = story.run(NOW)
        assert report.status is RunStatus.FAILED
        assert '"same" is also that of work unit' in report.failures[0].error
        assert dumped(tmp_path) == {}


def test_under_all_or_nothing_two_work_units_with_one_name_publish_nothing(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1", y=b"2")
    story = dump_story(tmp_path, source, "x", "y", ms__extractor__target__file__name="same")
    report = story.run(NOW)
    assert all("also that of" in failure.error for failure in report.failures)
    assert dumped(tmp_path) == {}


def test_a_file_whose_name_is_a_folder_of_another_one_is_a_clash(
    tmp_path: Path, source: HttpServer
) -> None:
    give(source, "d", b"1")
    give(source, "d/e", b"2")
    story = dump_story(
        tmp_path, source, "d", "d/e", job__commit__policy="successful",
        ms__source__uri=f"{source.url}/files/d",
    )  # fmt: skip
    assert story.run(NOW).status is RunStatus.FAILED
    assert dumped(tmp_path) == {}


@pytest.mark.parametrize(("written", "mode"), [("", 0o755), ("640", 0o640), ("0600", 0o600)])
def test_a_file_has_exactly_the_permission_that_was_asked_for(
    tmp_path: Path, source: HttpServer, written: str, mode: int
) -> None:
    serve(source, x=b"1")
    umask = os.umask(0o077)
    try:
        dump_story(tmp_path, source, "x", ms__extractor__target__file__permission=written).run(NOW)
    finally:
        os.umask(umask)
    assert (tmp_path / "lake" / "x").stat().st_mode & 0o7777 == mode


def test_an_empty_body_gives_an_empty_file_and_no_body_gives_none(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"")
    source.script("/files/y", Reply(status=204))
    report = dump_story(tmp_path, source, "x", "y").run(NOW)
    assert report.status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"x": b""}


def test_min_records_counts_files(tmp_path: Path, source: HttpServer) -> None:
    serve(source, x=b"")
    source.script("/files/y", Reply(status=204))
    assert dump_story(tmp_path, source, "x", ms__work__unit__min__records="1").run(NOW).rows == 1
    again = dump_story(tmp_path, source, "y", ms__work__unit__min__records="1")
    assert "min.records asks for 1" in only_failure(again.run(NOW))


def test_pages_are_numbered_and_an_empty_page_ends_them(tmp_path: Path, source: HttpServer) -> None:
    source.script("/files/x", Reply(b"p0"), Reply(b"p1"), Reply(b""))
    story = dump_story(
        tmp_path,
        source,
        "x",
        ms__parameters='[{"name":"page","type":"pageno"}]',
        ms__pagination='{"initialvalues":[0,10,1]}',
    )
    assert story.run(NOW).status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"x_0": b"p0", "x_1": b"p1", "x_2": b""}


def test_payload_rows_are_numbered_where_there_is_more_than_one(
    tmp_path: Path, source: HttpServer
) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "part.json").write_text('{"n":1}\n{"n":2}\n')
    source.script("/files/x", Reply(b"one"), Reply(b"two"))
    sends = {
        "ms__secondary__input": f'[{{"path":"{rows}","category":"payload"}}]',
        "ms__http__request__method": "POST",
    }
    dump_story(tmp_path, source, "x", **sends).run(NOW)
    assert dumped(tmp_path) == {"x_0": b"one", "x_1": b"two"}


def test_one_payload_row_has_the_plain_name(tmp_path: Path, source: HttpServer) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "part.json").write_text('{"n":1}\n')
    source.script("/files/x", Reply(b"one"))
    sends = {
        "ms__secondary__input": f'[{{"path":"{rows}","category":"payload"}}]',
        "ms__http__request__method": "POST",
    }
    dump_story(tmp_path, source, "x", **sends).run(NOW)
    assert dumped(tmp_path) == {"x": b"one"}


@pytest.mark.parametrize("kind", ["short_body", "reset_body"])
def test_a_cut_connection_leaves_nothing_and_the_file_of_before(
    tmp_path: Path, source: HttpServer, kind: str
) -> None:
    serve(source, x=b"old")
    dump_story(tmp_path, source, "x").run(NOW)
    serve(source, x=b"new" * 1_000_000)
    source.faults.append(Fault(kind, path="/files/x"))
    story = dump_story(tmp_path, source, "x")
    assert story.run(day(5)).status is RunStatus.FAILED
    assert dumped(tmp_path) == {"x": b"old"}
    source.faults.clear()
    assert story.run(day(5)).status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"x": b"new" * 1_000_000}


def test_an_input_preprocessor_takes_its_ending_off_the_name(
    tmp_path: Path, source: HttpServer
) -> None:
    give(source, "in/x.csv.gz", gzip.compress(b"id\n1\n"), "application/gzip")
    story = dump_story(tmp_path, source, "in/x.csv.gz", ms__extract__preprocessors="gunzip",
                       ms__source__uri=f"{source.url}/files/in/x.csv.gz")  # fmt: skip
    assert story.run(NOW).status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"in/x.csv": b"id\n1\n"}


def test_a_later_work_unit_that_takes_the_name_of_another_one_is_told_of(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1", y=b"2")
    changes = {"ms__extractor__target__file__name": "same"}
    dump_story(tmp_path, source, "x", **changes).run(NOW)
    report = dump_story(tmp_path, source, "y", **changes).run(day(5), run_id="run-2")
    assert report.status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"same": b"2"}
    (note,) = report.notes
    assert 'for example "same" of' in note
    assert '{"name":"x"}' in note


def test_another_job_that_dumps_into_the_folder_is_not_taken_for_one_without_its_state(
    tmp_path: Path, source: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    serve(source, x=b"1", y=b"2")
    dump_story(tmp_path, source, "x").run(NOW)
    assert dump_story(tmp_path, source, "y", job__name="other").run(NOW).notes == ()
    assert [record.getMessage() for record in caplog.records] == []
    assert dumped(tmp_path) == {"x": b"1", "y": b"2"}


def test_a_unit_that_is_read_again_replaces_its_own_file_without_a_word(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1")
    story = dump_story(tmp_path, source, "x")
    story.run(NOW)
    serve(source, x=b"2")
    assert story.run(day(5)).notes == ()
    assert dumped(tmp_path) == {"x": b"2"}


def test_another_partition_that_takes_the_name_of_an_earlier_one_is_told_of(
    tmp_path: Path, source: HttpServer
) -> None:
    serve(source, x=b"1")
    story = dump_story(
        tmp_path,
        source,
        "x",
        ms__work__unit__partition="yearly",
        ms__work__unit__partial__partition="false",
    )
    year = 366 * (day(1) - day(0))
    assert story.run(day(0) + year).notes == ()
    (note,) = story.run(day(0) + 2 * year).notes
    assert "names of other work units' files" in note
