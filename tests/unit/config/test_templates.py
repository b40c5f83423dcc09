"""Templates: properties that hold unless a job says otherwise."""

from __future__ import annotations

import pytest

from dil.config.loading import peek_name

BASE = "extract.table.type=APPEND_ONLY\ntaskexecutor.threadpool.size=3\nextract.namespace=base\n"


@pytest.fixture
def template(job_file):
    """Return a function that writes a template below the folder of the job file."""

    def write(name: str, text: str) -> None:
        path = job_file.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


@pytest.mark.parametrize(
    "name",
    [
        "base.template",
        "./base.template",
        "resource:///base.template",
        "${job.name}.template",
        "{folder}",
    ],
)
def test_a_template_holds_unless_the_job_says_otherwise(job_file, template, name):
    template("base.template", BASE)
    template("orders.template", BASE)
    named = name.replace("{folder}", f"file://{job_file.folder}/base.template")
    loaded = job_file.load({"job.template": named, "extract.namespace": "own"})
    assert (loaded.job.running.threads, loaded.job.writing.record_namespace) == (3, "own")
    assert [notice for notice in loaded.notices if notice not in loaded.infos] == []


def test_a_file_that_the_job_inherits_wins_over_its_template(job_file, template):
    template("base.template", BASE)
    template(".dil-project", "")
    template("project.properties", "taskexecutor.threadpool.size=7\njob.template=base.template")
    job = job_file.load().job
    assert (job.running.threads, job.writing.record_namespace) == (7, "base")


def test_a_template_may_build_on_others_and_name_what_a_job_has_to_set(job_file, template):
    template("lib/base.template", f"{BASE}gobblin.template.required_attributes=shop, region\n")
    template("lib/more.template", "gobblin.template.inherit=resource:///lib/base.template\nx=1")
    job = {"job.template": "resource:///lib/more.template", "region": "eu"}
    (found,) = job_file.problems(job)
    assert (found.key, found.fix) == ("shop", "Set it in the job.")
    used = {"ms.source.uri": "https://shop.test/${shop}/${region}/${x}"}
    assert job_file.load({**job, **used, "shop": "a"}).job.running.threads == 3


def test_a_template_is_found_in_the_folders_of_plug_ins_too(job_file, template):
    template("shared/base.template", BASE)
    job = {"job.template": "resource:///base.template", "ms.plugin.path": "shared"}
    assert job_file.load(job).job.running.threads == 3


@pytest.mark.parametrize("name", ["none.template", "resource:///none.template"])
def test_a_template_that_is_missing_is_told_with_where_it_was_looked_for(job_file, name):
    found = job_file.problem("job.template", name)
    assert f"{job_file.folder / 'none.template'}" in found.what


def test_templates_that_inherit_each_other_are_a_problem(job_file, template):
    template("a.template", "gobblin.template.inherit=b.template")
    template("b.template", "gobblin.template.inherit=a.template")
    (found,) = job_file.problems({"job.template": "a.template"})
    assert (found.key, "circle" in found.what) == ("gobblin.template.inherit", True)


def test_a_template_in_hadoop_is_refused_with_what_to_write(job_file):
    assert job_file.problem("job.template", "hdfs://lake/base.template").fix


def test_a_problem_of_a_template_is_told_in_its_file(job_file, template):
    template("base.template", "x=1\ntask.maxretries=many")
    (found,) = job_file.problems({"job.template": "base.template"})
    assert str(found.origin) == f"{job_file.folder / 'base.template'}:2"


def test_the_name_of_a_job_may_stand_in_its_template(job_file, template):
    template("base.template", "job.name=daily")
    job_file.load({"job.template": "base.template", "job.name": None})
    assert peek_name(job_file.folder / "job.conf") == "daily"
