"""``${}`` in values (rule F5)."""

from __future__ import annotations


def uri(loaded) -> str:
    return loaded.job.source.uri


def test_names_are_replaced_recursively_and_variables_left_alone(job_file):
    loaded = job_file.load(
        {"host": "h.test", "base": "https://${host}", "ms.source.uri": "${base}/${host}?i={{id}}"}
    )
    assert uri(loaded) == "https://h.test/h.test?i={{id}}"


def test_names_of_inherited_files_are_seen_and_the_nearest_value_counts(job_file):
    (job_file.folder / "p.properties").write_text("host=far\nbase=https://${host}\n")
    assert uri(job_file.load({"host": "near", "ms.source.uri": "${base}/"})) == "https://near/"


def test_the_environment_and_flags_are_read(job_file):
    loaded = job_file.load(
        {"ms.source.uri": "https://${env:HOST}/${sys:path}"},
        environ={"HOST": "h"},
        overrides={"path": "p"},
    )
    assert uri(loaded) == "https://h/p"


def test_an_unknown_name_is_told_with_the_nearest_one(job_file):
    found = job_file.problem("job.description", "${job.nme}")
    assert "job.name" in found.fix


def test_unknown_outside_names_are_told(job_file):
    assert "env:HOST" in job_file.problem("job.description", "${env:HOST}").what
    assert "sys:host" in job_file.problem("job.description", "${sys:host}").what


def test_a_circle_is_told_once_per_key_in_it(job_file):
    found = job_file.problems({"a": "${b}", "b": "${a}", "job.description": "${a}"})
    assert {problem.key for problem in found} <= {"a", "b"}
    assert all("circle" in problem.what for problem in found)


def test_a_value_from_the_environment_is_never_shown(job_file):
    found = job_file.problem("task.maxretries", "${env:PIN}", environ={"PIN": "s3cret"})
    assert "s3cret" not in str(found)


def test_what_is_no_whole_token_stays(job_file):
    assert uri(job_file.load({"ms.source.uri": "https://h/$x/${"})) == "https://h/$x/${"


def test_keys_of_ones_own_are_told_only_where_nothing_refers_to_them(job_file):
    loaded = job_file.load({"host": "h.test", "heap": "4g", "ms.source.uri": "https://${host}/"})
    told = [notice.what for notice in loaded.notices if "no ${} refers" in notice.what]
    assert told == ["These keys are unknown, and no ${} refers to them: heap"]


def test_a_reference_makes_no_unknown_key_of_ours_known(job_file):
    (found,) = job_file.problems({"ms.sourc.uri": "x", "job.description": "${ms.sourc.uri}"})
    assert (found.key, found.what) == ("ms.sourc.uri", "is no known property")
