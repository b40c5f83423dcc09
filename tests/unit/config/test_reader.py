"""Files: kinds, includes, inheritance, precedence, origins (docs/semantics/configuration.md)."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from dil.config import load, peek_name
from dil.config.findings import Findings
from dil.config.reader import read_job, written_values
from dil.errors import ConfigError
from tests.unit.config.conftest import JobFile


def entries(path: Path) -> dict[str, str]:
    findings = Findings()
    found = read_job(str(path), findings)
    findings.raise_problems()
    return {key: entry.text for key, entry in found.items()}


def problem(path: Path):
    with pytest.raises(ConfigError) as caught:
        entries(path)
    (found,) = caught.value.problems
    return found


def test_a_missing_job_file_tells_the_nearest_name(tmp_path):
    (tmp_path / "orders.conf").touch()
    assert "orders.conf" in problem(tmp_path / "order.conf").fix


def test_a_missing_job_file_is_told_with_the_folder_that_lacks_it(tmp_path, monkeypatch):
    assert problem(tmp_path / "x.conf").fix == f"The folder is {tmp_path}."
    folder = tmp_path / "no"
    assert problem(folder / "x.conf").fix == f"The folder is {folder}, which does not exist."
    monkeypatch.chdir(tmp_path)
    assert problem(Path("x.conf")).fix == f"The folder is {tmp_path}."


def test_a_missing_job_file_in_a_folder_that_was_deleted_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert "working directory is gone" in problem(Path("x.conf")).fix


def test_a_folder_is_no_job_file(tmp_path):
    assert "folder" in problem(tmp_path).what


def test_text_that_is_not_utf_8_is_told_with_its_line(tmp_path):
    (tmp_path / "a.conf").write_bytes(b"a=1\nb=\xff\n")
    assert problem(tmp_path / "a.conf").origin.line == 2


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / "a.conf").write_bytes(b"\xef\xbb\xbfa=1")
    assert entries(tmp_path / "a.conf") == {"a": "1"}


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a"])
def test_other_suffixes_are_no_job_files(tmp_path, name):
    (tmp_path / name).write_text("a=1")
    assert ".conf" in problem(tmp_path / name).fix


@pytest.mark.parametrize("name", ["a.conf", "a.pull", "a.job", "a.properties"])
def test_all_property_file_suffixes_are_read_alike(tmp_path, name):
    (tmp_path / name).write_text("a=1")
    assert entries(tmp_path / name) == {"a": "1"}


def test_a_key_given_twice_keeps_the_last_value_with_a_notice(tmp_path):
    (tmp_path / "a.conf").write_text("a=1\na=2\n")
    findings = Findings()
    assert read_job(str(tmp_path / "a.conf"), findings)["a"].text == "2"
    assert [(notice.key, notice.origin.line) for notice in findings.notices] == [("a", 2)]


def test_an_include_is_relative_to_its_file_and_loses_against_it_without_a_notice(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/base.conf").write_text("a=base\nb=base\ninclude=more.yaml\n")
    (tmp_path / "shared/more.yaml").write_text("b: more\nc: more\n")
    (tmp_path / "job.conf").write_text("a=own\ninclude=shared/base.conf\n")
    findings = Findings()
    found = read_job(str(tmp_path / "job.conf"), findings)
    assert {key: entry.text for key, entry in found.items()} == {
        "a": "own", "b": "base", "c": "more",
    }  # fmt: skip
    assert found["c"].origin.path == str(tmp_path / "shared/more.yaml")
    assert findings.notices == []


def test_a_later_include_wins_over_an_earlier_one(tmp_path):
    (tmp_path / "x.conf").write_text("a=x\n")
    (tmp_path / "y.conf").write_text("a=y\n")
    (tmp_path / "job.conf").write_text("include=x.conf\ninclude=y.conf\n")
    assert entries(tmp_path / "job.conf") == {"a": "y"}


@pytest.mark.parametrize("target", ["missing.conf", "", "${env:X}.conf", "job.conf", "."])
def test_an_include_that_cannot_work_is_told_at_its_line(tmp_path, target):
    (tmp_path / "job.conf").write_text(f"a=1\ninclude={target}\n")
    found = problem(tmp_path / "job.conf")
    assert (found.key, found.origin.line) == ("include", 2)


def test_a_circle_of_includes_is_told(tmp_path):
    (tmp_path / "a.conf").write_text("include=b.conf\n")
    (tmp_path / "b.conf").write_text("include=a.conf\n")
    assert "circle" in problem(tmp_path / "a.conf").what


def test_properties_of_the_folders_above_are_inherited_up_to_the_project(tmp_path):
    project = tmp_path / "project"
    jobs = project / "team/jobs"
    jobs.mkdir(parents=True)
    (project / ".git").mkdir()
    (tmp_path / "outside.properties").write_text("z=outside\n")
    (project / "project.properties").write_text("a=project\nb=project\nc=project\n")
    (jobs / "jobs.properties").write_text("b=jobs\nc=jobs\n")
    (jobs / "x.pull").write_text("c=own\n")
    assert entries(jobs / "x.pull") == {"a": "project", "b": "jobs", "c": "own"}


def test_inheritance_does_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "here/jobs").mkdir(parents=True)
    (tmp_path / "outside.properties").write_text("z=outside\n")
    (tmp_path / "here/p.properties").write_text("a=here\n")
    (tmp_path / "here/jobs/x.pull").write_text("b=own\n")
    inherited = {"z": "outside", "a": "here", "b": "own"}
    assert entries(tmp_path / "here/jobs/x.pull") == inherited
    for folder, name in (
        ("here", "jobs/x.pull"),
        ("here/jobs", "x.pull"),
        ("", "here/jobs/x.pull"),
    ):
        monkeypatch.chdir(tmp_path / folder)
        assert entries(Path(name)) == inherited


def test_the_folder_that_holds_a_repository_ends_inheritance(tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/.git").touch()  # A file, in a work tree.
    (tmp_path / "outside.properties").write_text("z=outside\n")
    (tmp_path / "jobs/own.properties").write_text("a=1\n")
    (tmp_path / "jobs/x.pull").write_text("b=2\n")
    assert entries(tmp_path / "jobs/x.pull") == {"a": "1", "b": "2"}


def test_origins_of_inherited_files_are_relative_where_the_job_file_is(tmp_path, monkeypatch):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "p.properties").write_text("a=1\n")
    (tmp_path / "jobs/x.pull").write_text("b=2\n")
    monkeypatch.chdir(tmp_path / "jobs")
    found = read_job("x.pull", Findings())
    assert {key: str(entry.origin) for key, entry in found.items()} == {
        "a": "../p.properties:1", "b": "x.pull:1",
    }  # fmt: skip


def test_behind_a_symbolic_link_the_real_folders_above_count(tmp_path, monkeypatch):
    (tmp_path / "real/jobs").mkdir(parents=True)
    (tmp_path / "real/p.properties").write_text("a=real\n")
    (tmp_path / "real/jobs/x.pull").write_text("b=own\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/q.properties").write_text("a=wrong\n")
    (tmp_path / "elsewhere/link").symlink_to(tmp_path / "real/jobs")
    monkeypatch.chdir(tmp_path)
    assert entries(Path("elsewhere/link/x.pull")) == {"a": "real", "b": "own"}


def test_every_inherited_file_is_told(tmp_path, job_file):
    (tmp_path / "project.properties").write_text("job.description=x\n")
    (job_file.folder / "own.properties").write_text("")
    loaded = job_file.load()
    assert [(info.what, info.key) for info in loaded.infos] == [
        (f"inherits {job_file.folder / 'own.properties'}", ""),
        (f"inherits {tmp_path / 'project.properties'}", ""),
    ]
    assert set(loaded.infos) <= set(loaded.notices)


def test_two_property_files_in_one_folder_are_refused(tmp_path):
    (tmp_path / "one.properties").touch()
    (tmp_path / "two.properties").touch()
    (tmp_path / "x.pull").touch()
    assert "two.properties" in problem(tmp_path / "x.pull").what


@pytest.mark.parametrize("name", ["gradle.properties", "log4j.properties", "log4j2.properties"])
def test_settings_of_another_program_are_not_inherited(tmp_path, job_file, name):
    (tmp_path / name).write_text("org.gradle.daemon=false\n")
    (tmp_path / "project.properties").write_text("job.description=x\n")
    loaded = job_file.load()
    assert [info.what for info in loaded.notices] == [f"inherits {tmp_path / 'project.properties'}"]


def test_a_properties_file_that_is_the_job_does_not_inherit_from_its_neighbours(tmp_path):
    (tmp_path / "one.properties").write_text("a=1")
    (tmp_path / "two.properties").write_text("b=2")
    assert entries(tmp_path / "one.properties") == {"a": "1"}


def test_yaml_holds_the_same_keys_nested_or_not(tmp_path):
    (tmp_path / "a.yaml").write_text(
        """
job: {name: "007", lock: {enabled: no}}
ms.watermark:
  - name: system
    type: datetime
    range: {from: 2020-01-01, to: "-"}
ms:
  parameters: [{name: n, type: primitive, value: 1.50}]
  source.uri: https://h/p
converter.classes: [a.B, c.D]
extract.namespace: ~
task.maxretries: 3
"""
    )
    assert entries(tmp_path / "a.yaml") == {
        "job.name": "007",
        "job.lock.enabled": "no",
        "ms.watermark": '[{"name":"system","type":"datetime",'
        '"range":{"from":"2020-01-01","to":"-"}}]',
        "ms.parameters": '[{"name":"n","type":"primitive","value":1.50}]',
        "ms.source.uri": "https://h/p",
        "converter.classes": "a.B,c.D",
        "extract.namespace": "",
        "task.maxretries": "3",
    }


@pytest.mark.parametrize("text", ["", "# a comment alone"])
def test_yaml_without_a_value_has_no_properties(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    assert entries(tmp_path / "a.yaml") == {}


@pytest.mark.parametrize("text", ["a: [", "- 1", "just text", "a: {b}", "a: \x01"])
def test_yaml_that_is_no_job_is_told(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    assert problem(tmp_path / "a.yaml").origin.path.endswith("a.yaml")


def bomb(levels):
    names = [f"a{level}" for level in range(levels)]
    pairs = itertools.pairwise(names)
    uses = "".join(f"{name}: &{name} [{', '.join([f'*{last}'] * 10)}]\n" for last, name in pairs)
    return f"a0: &a0 [{'x' * 100}]\n{uses}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (bomb(8), "has more than 20,000,000 characters"),
        ("a: &a [*a]", "an alias inside the value that it names"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested too deep"),
    ],
)
def test_yaml_that_stands_for_more_than_there_is_room_for_is_told(tmp_path, text, what):
    (tmp_path / "a.yaml").write_text(text)
    assert what in problem(tmp_path / "a.yaml").what


def test_yaml_joins_the_halves_of_a_character_and_refuses_a_single_half(tmp_path):
    (tmp_path / "a.yaml").write_text(r"""{"a": "\ud83d\ude00", "b": [{"c": "\ud83d\ude00"}]}""")
    assert entries(tmp_path / "a.yaml") == {"a": "\U0001f600", "b": '[{"c":"\U0001f600"}]'}

    (tmp_path / "a.yaml").write_text(r"""b: [{"c": "\ud83d"}]""")
    assert "half of a character" in problem(tmp_path / "a.yaml").what

    (tmp_path / "a.yaml").write_text(r"""{"a\ud83d\ude00": "b"}""")
    assert entries(tmp_path / "a.yaml") == {"a\U0001f600": "b"}

    (tmp_path / "a.yaml").write_text(r"""{"x": 1, "a\ud83d": "b"}""")
    assert "half of a character" in problem(tmp_path / "a.yaml").what


@pytest.mark.parametrize(
    ("text", "what"),
    [("\udcff", "holds bytes that are not UTF-8"), ("\ud83d", "holds half of a surrogate pair")],
)
def test_texts_from_outside_that_no_file_can_hold_are_refused(job_file, text, what):
    (of_flag,) = job_file.problems({}, overrides={"ms.source.uri": f"https://shop.test/{text}"})
    assert str(of_flag).startswith(f"-D ms.source.uri {what}\n")

    (of_name,) = job_file.problems({}, overrides={f"a{text}": "1"})
    assert of_name.what == f"has a name that {what}"

    (found,) = job_file.problems({"ms.source.uri": "${env:WHERE}"}, environ={"WHERE": text})
    assert (found.key, found.what) == ("ms.source.uri", what)


def test_a_relative_path_is_refused_where_the_folder_of_the_job_is_not_utf_8(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    job_file = JobFile(folder)

    relative = {found.key for found in job_file.problems({})}

    assert relative == {"data.publisher.final.dir", "state.store.dir"}
    absolute: dict[str, str | None] = dict.fromkeys(relative, str(tmp_path))
    assert job_file.load(absolute).job.publishing.final_dir == str(tmp_path)


def test_aliases_in_yaml_stand_for_what_they_name(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &once [x, {b: 1}]\nc: *once\n")
    found = entries(tmp_path / "a.yaml")
    assert found["c"] == found["a"] == '["x",{"b":1}]'


def test_a_flag_wins_over_the_file_and_is_its_own_origin(job_file):
    loaded = job_file.load({"task.maxretries": "1"}, overrides={"task.maxretries": "2"})
    assert loaded.job.running.max_retries == 2
    (found,) = job_file.problems({}, overrides={"task.maxretries": "-2"})
    assert str(found.origin) == "-D task.maxretries"


def test_a_blank_flag_takes_a_value_away(job_file):
    loaded = job_file.load({"task.maxretries": "1"}, overrides={"task.maxretries": ""})
    assert loaded.job.running.max_retries == 4


def test_origins_name_the_path_as_it_was_given(tmp_path, monkeypatch):
    (tmp_path / "a.conf").write_text("\nms.bogus=1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load("a.conf", environ={})
    assert "a.conf:2" in {str(found.origin) for found in caught.value.problems}


def test_values_are_shown_as_they_were_written_unless_they_may_be_secret(tmp_path):
    lines = [
        "job.name=a-${b}",
        "writer.file.pathType=tablename",
        "source.conn.password=s3cret",
        "ms.sorce.uri=https://u:s3cret@h",
        f"job.description={'x' * 600}",
    ]
    (tmp_path / "a.conf").write_text("\n".join(lines))
    found = written_values(tmp_path / "a.conf", {"job.name": "d"})
    assert found == {
        "job.name": "d",
        "writer.file.pathType": "tablename",
        "writer.file.path.type": "tablename",
        "source.conn.password": "***",
        "ms.sorce.uri": "***",
        "job.description": f"{'x' * 500}...",
    }
    assert written_values(tmp_path / "none.conf", {"job.name": "d"}) == {"job.name": "d"}


def test_the_name_of_a_job_is_known_although_its_file_is_wrong(tmp_path):
    def name(text: str, *more: dict[str, str]) -> str:
        (tmp_path / "a.conf").write_text(text)
        return peek_name(tmp_path / "a.conf", *more)

    assert name("job.name=a\nms.bogus=1\n") == "a"
    assert name("job.name=a-${b}\nb=c\n") == "a-c"
    assert name("job.name=${env:X}\n", {}, {"X": "e"}) == "e"
    assert name("job.name=a\n", {"job.name": "d"}) == "d"
    assert name("job.name=${env:X}\n") == name("x=1\n") == name("job { name = x }\n") == ""
    assert peek_name(tmp_path / "missing.conf") == ""
    assert peek_name(tmp_path / "missing.conf", {"job.name": "d"}) == "d"
