"""The inside of JSON properties as the reference and ``dil explain`` show it."""

from __future__ import annotations

from typing import get_args

import pytest

from dil.config import planning_spec
from dil.config.explaining import explain
from dil.config.property import form_of
from dil.config.table import TABLE
from dil.config.watermarks import MEMBERS
from dil.model.section import Support
from dil.model.settings import ParameterType
from dil.sections.schema import COLUMN_MEMBERS

FORMS = {entry.name: form for entry in TABLE.values() if (form := form_of(entry))}
WORKING = [name for name in FORMS if TABLE[name].support is Support.WORKS]
ENVIRONMENT = {"API_KEY": "k", "API_TOKEN": "t"}


def test_every_json_property_that_works_has_members_and_an_example():
    works = {
        entry.name
        for entry in TABLE.values()
        if entry.type.spans_lines and entry.support is Support.WORKS
    }
    assert works == set(WORKING)


@pytest.mark.parametrize("name", FORMS)
def test_every_member_has_a_name_of_its_own_and_a_meaning(name):
    form = FORMS[name]
    paths = [member.path for member in form.members]
    assert len(set(paths)) == len(paths)
    assert all(member.meaning.endswith(".") for member in form.members)


def test_the_members_that_are_read_without_a_model_are_all_told():
    told = {name: {member.path for member in form.members} for name, form in FORMS.items()}
    assert {member for kind in MEMBERS.values() for member in kind} <= told["ms.watermark"]
    assert set(COLUMN_MEMBERS) - {"name"} <= told["ms.output.schema"]


def test_all_examples_together_are_a_job(job_file):
    (job_file.folder / "key").write_text("master\n")
    # A job has a source, or datasets in its place: those of a query are read below.
    job = {
        name: FORMS[name].example
        for name in WORKING
        if name not in {"ms.query.inputs", "ms.window.aggs"}
    }
    job |= {"encrypt.key.loc": "key"}
    job |= {"ms.event.column": "id", "ms.event.watermark": "bounded"}
    job |= {"ms.event.partition.column": "region"}
    loaded = job_file.load({**job, "ms.total.count.field": "total"}, environ=ENVIRONMENT)
    assert loaded.notices == ()
    parameters = loaded.job.extraction.parameters
    assert {each.type for each in parameters} == set(get_args(ParameterType))
    formulas = {each.formula.type for each in loaded.job.conversion.derived_fields}
    assert formulas == {"epoc", "string", "regexp", "boolean", "int", "number"}


def test_the_example_of_inputs_is_read(job_file):
    job_file.load()
    (job_file.folder / "job.conf").rename(job_file.folder / "orders.conf")
    without = dict.fromkeys(("source.class", "ms.source.uri", "ms.extractor.class"))
    job = {"ms.query.inputs": FORMS["ms.query.inputs"].example, "ms.query.sql": "SELECT 1 AS one"}
    loaded = job_file.load(
        {"job.name": "derived", **without, **job},
        environ={"CUSTOMERS_STATE": "postgresql://db.test/state"},
    )
    views = [each.view for each in loaded.job.query.inputs]
    assert views == ["orders", "customers"]

    (job_file.folder / "job.conf").unlink()
    windows = {"ms.query.mode": "windowed", "ms.window.size": "PT1H", "ms.window.column": "at"}
    one = {"ms.query.inputs": '[{"job": "orders.conf", "as": "orders"}]'}
    job = {**one, **windows, "ms.window.aggs": FORMS["ms.window.aggs"].example}
    loaded = job_file.load({"job.name": "hourly", **without, **job})
    assert dict(loaded.job.query.windows.aggs) == {"total": "sum(amount)", "rows": "count(*)"}


def test_the_example_of_a_property_that_comes_later_is_read_as_well():
    assert planning_spec({"ms.secondary.input": FORMS["ms.secondary.input"].example})


def test_explain_shows_members_with_their_defaults_and_the_example():
    text = explain("ms.http.statuses")
    assert "success (array of whole numbers, default [200,201,202])" in text
    assert "ms.http.statuses={" in text
    assert "members" not in explain("job.name")
