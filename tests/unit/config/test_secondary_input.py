"""``ms.secondary.input`` and its checks (docs/secondary-input.md)."""

from __future__ import annotations

import json

import pytest

from dil.config import planning_spec
from dil.config.findings import Findings
from dil.config.requests import check_secondary_input
from dil.errors import ConfigError
from dil.model.secondary import SecondaryInput, SecondaryRetry
from dil.sections.secondary import SecondarySection

KEY = "ms.secondary.input"


def sources(job_file, *entries: dict[str, object]) -> tuple[SecondaryInput, ...]:
    found = job_file.load({KEY: json.dumps(entries)}).job.properties[KEY]
    assert isinstance(found, tuple)
    return found


def test_an_entry_has_defaults_and_no_retry_unless_it_is_written(job_file):
    (found,) = sources(job_file, {"path": "/lake/ids", "fields": ["id"]})
    assert found == SecondaryInput(path="/lake/ids", fields=("id",))
    assert (found.category, found.retry) == ("activation", None)
    (found,) = sources(job_file, {"path": "/x", "fields": ["a"], "retry": {"delayInSec": "5"}})
    assert found.retry == SecondaryRetry(delay_s=5, count=3)


def test_a_relative_path_starts_at_the_job_files_folder(job_file):
    entries = [
        {"path": path, "fields": ["id"]}
        for path in ("../lake/ids", "file:///lake/a%20b", "file://localhost/x/", "/y")
    ]
    found = [source.path for source in sources(job_file, *entries)]
    assert found == [str(job_file.folder.parent / "lake/ids"), "/lake/a b", "/x", "/y"]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({}, 'lacks the member "[0].path"'),
        ({"path": " "}, "[0].path is blank"),
        ({"path": "/x", "category": "Payload"}, '[0].category is "Payload"'),
        ({"path": "/x", "filter": {}}, 'has an unknown member "[0].filter"'),
        ({"path": "/x", "filters": {"a": "("}}, "[0].filters.a: "),
        ({"path": "/x", "retry": {"retryCount": -1}}, "[0].retry.retryCount is too small"),
        ({"path": "/x", "format": "binary"}, "[0].format is for category payload only"),
        ({"path": "/x/{{id}}"}, "[0].path uses {{id}}, and activation input is read once"),
    ],
)
def test_what_is_wrong_with_an_entry_is_told(job_file, entry, what):
    found = job_file.problem(KEY, json.dumps([{"fields": ["id"], **entry}]))
    assert found.what.startswith(what)


def test_all_problems_of_all_entries_come_together(job_file):
    entries = [{"path": "", "filters": {"a": "("}}, {"path": "/{{x}}", "filters": {"b": "["}}]
    assert len(job_file.problems({KEY: json.dumps(entries)})) == 3
    entries[0]["path"] = " "
    assert len(job_file.problems({KEY: json.dumps(entries)})) == 4


def test_variables_are_allowed_in_the_path_of_a_payload():
    text = '[{"path":"{{folder}}/a","category":"payload"},{"path":"/b","category":"payload"}]'
    assert planning_spec({KEY: text})[0].units == ("{}",)


def test_entries_that_cannot_do_what_they_seem_to_give_a_notice(job_file):
    entry = {"path": "/x", "fields": ["a"], "category": "authentication"}
    loaded = job_file.load({KEY: json.dumps([entry, {**entry, "fields": []}])})
    assert [notice.what for notice in loaded.notices] == [
        "has more than one authentication entry; all of them together must give one row",
        "[1] names no fields, so it gives no variable",
    ]
    loaded = job_file.load({KEY: '[{"path":"/x"}]'})
    (notice,) = [notice for notice in loaded.notices if notice.key == KEY]
    assert notice.what == "[0] names no fields, so it gives one unit, {}"


def checked(job_file, *entries: dict[str, object]) -> Findings:
    findings = Findings()
    properties = job_file.load({KEY: json.dumps(entries)}).job.properties
    check_secondary_input(properties, job_file.folder, findings)
    return findings


def test_what_a_run_can_read_has_no_problem(job_file):
    entry = {"path": "../x", "fields": ["a"]}
    assert checked(job_file, entry, {**entry, "category": "authentication"}).problems == []
    assert checked(job_file, {"path": "s3://lake/ids", "fields": ["a"]}).problems == []


@pytest.mark.parametrize("path", ["s3:///ids", "viewfs://nn/ids", "~/ids"])
def test_a_path_that_cannot_be_read_is_refused_by_a_run_and_taken_by_planning(job_file, path):
    entry = {"path": path, "fields": ["id"]}
    with pytest.raises(ConfigError, match=r"\[0\]\.path (is on|begins with ~|names no bucket)"):
        checked(job_file, entry).raise_problems()
    assert planning_spec({KEY: json.dumps([entry])})[0].units is None


def test_whole_files_as_payload_are_refused_by_a_run(job_file):
    entry = {"path": "/x", "category": "payload", "format": "binary"}
    with pytest.raises(ConfigError, match="takes no whole files"):
        checked(job_file, entry).raise_problems()


def test_the_variables_of_activation_and_authentication_are_known_by_their_fields(job_file):
    loaded = job_file.load(
        {
            KEY: json.dumps(
                [
                    {"path": "/a", "fields": ["id", "n"]},
                    {"path": "/b", "fields": ["token"], "category": "authentication"},
                ]
            )
        }
    )
    assert loaded.job.properties.section(SecondarySection).variables == {"id", "n", "token"}
    assert job_file.load().job.properties.section(SecondarySection).variables == frozenset()
