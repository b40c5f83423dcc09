"""Parameters whose value comes from the page before: something has to give it."""

import json

import pytest

from dil.errors import ConfigError

PAGING = "ms.pagination"
SESSION = "ms.session.key.field"
PARAMETERS = "ms.parameters"


def found(job_file, *parameters, **more):
    """Return what is noticed of the parameters, as (name, type)."""
    text = json.dumps([{"name": "p", **each} for each in parameters])
    notices = job_file.load({PARAMETERS: text, **more}).notices
    told = [each for each in notices if "nothing gives it a value" in each.what]
    assert {each.key for each in told} <= {PARAMETERS}
    return [each.what.split(",")[0] for each in told]


@pytest.mark.parametrize("kind", ["session", "pagestart", "pageno", "pagesize"])
def test_a_parameter_that_no_page_gives_a_value_is_noticed(job_file, kind):
    inside = {"type": "object", "name": "body", "value": [{"name": "p", "type": kind}]}
    for parameter in ({"type": kind}, inside):
        assert found(job_file, parameter) == [f'"p" is of type {kind}']


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("session", {SESSION: '{"name":"next"}'}),
        ("pagestart", {PAGING: '{"initialvalues":[0]}'}),
        ("pagestart", {"ms.total.count.field": "total"}),
        ("pageno", {PAGING: '{"more":"more"}'}),
        ("pageno", {SESSION: '{"name":"state","condition":{"regexp":"done"}}'}),
        ("pagesize", {PAGING: '{"initialvalues":[0,9]}'}),
        ("pagesize", {PAGING: '{"fields":["","size"]}'}),
    ],
)
def test_a_parameter_that_a_page_gives_a_value_is_not_noticed(job_file, kind, given):
    assert found(job_file, {"type": kind}, **given) == []


def test_where_the_property_that_gives_the_value_is_misspelt_only_that_is_said(job_file):
    text = json.dumps([{"name": "p", "type": "pageno"}])
    with pytest.raises(ConfigError) as caught:
        job_file.load({PARAMETERS: text, "ms.paginaton": '{"initialvalues":[0,9,1]}'})

    assert [each.key for each in caught.value.problems] == ["ms.paginaton"]
    assert [each for each in caught.value.notices if each.key == PARAMETERS] == []


def test_a_page_size_that_nobody_says_is_noticed_though_pages_are_walked(job_file):
    start_only = {PAGING: '{"initialvalues":[0]}'}
    assert found(job_file, {"type": "pagesize"}, **start_only) == ['"p" is of type pagesize']


def test_a_parameter_that_every_unit_overlays_is_not_noticed(job_file):
    units = [{"name": "p", "type": "unit", "units": "a,b"}]
    assert found(job_file, {"type": "session"}, **{"ms.watermark": json.dumps(units)}) == []


LATER = [
    ("session", {SESSION: '{"name":"next"}'}, {SESSION: '{"name":"next","initValue":""}'}),
    ("pageno", {PAGING: '{"more":"more"}'}, {PAGING: '{"more":"more","initialvalues":[0,9,1]}'}),
    ("pagestart", {PAGING: '{"fields":["at"]}'}, {PAGING: '{"initialvalues":[0]}'}),
]


def named(job_file, value, **more):
    text = json.dumps([{"name": "tmpLast", "type": value[0]}, value[1]])
    notices = job_file.load({PARAMETERS: text, **more}).notices
    return sum("{{tmpLast}}" in each.what for each in notices if each.key == PARAMETERS)


@pytest.mark.parametrize(("kind", "later", "at_first"), LATER)
def test_a_text_that_the_first_request_sends_with_its_placeholder_is_noticed(
    job_file, kind, later, at_first
):
    for text in (
        {"name": "q", "value": "id>{{tmpLast}}"},
        {"name": "q", "type": "jsonobject", "value": {"after": ["{{tmpLast}}"]}},
    ):
        assert named(job_file, (kind, text), **later) == 1
        assert named(job_file, (kind, text), **at_first) == 0
    assert named(job_file, (kind, {"name": "q", "value": "id"}), **later) == 0


def test_a_later_parameter_of_the_name_gives_the_value(job_file):
    text = json.dumps([
        {"name": "last", "type": "session"},
        {"name": "last", "value": "0"},
        {"name": "q", "value": "id>{{last}}"},
    ])  # fmt: skip
    notices = job_file.load({PARAMETERS: text, SESSION: '{"name":"next"}'}).notices
    assert not [each.what for each in notices if "{{last}}" in each.what]


MEMBERS = {"name": "p", "type": "session", "format": "members"}
KEY = {SESSION: '{"name":"continue"}'}


def load_members(job_file, name="p", **more):
    parameters = json.dumps([{**MEMBERS, "name": name}])
    return job_file.load({PARAMETERS: parameters, **KEY, **more})


def test_the_members_of_a_session_key_may_be_sent_and_may_have_first_values(job_file):
    first = '{"name":"continue","initValue":"{\\"n\\":{{n}}}"}'
    unit = '[{"name":"u","type":"unit","units":[{"n":1}]}]'
    for more in ({}, {"name": "tmpP"}, {SESSION: first, "ms.watermark": unit}):
        loaded = load_members(job_file, **more)
        assert [each for each in loaded.notices if each.key in (PARAMETERS, SESSION)] == []


def test_members_that_no_request_can_have_are_problems(job_file):
    inside = json.dumps([{"name": "body", "type": "object", "value": [MEMBERS]}])
    used = json.dumps([MEMBERS, {"name": "q", "value": "{{p}}"}])
    for text in (inside, used):
        (problem,) = job_file.problems({PARAMETERS: text, **KEY})
        assert problem.key == PARAMETERS
    first = '{"name":"continue","initValue":"7"}'
    (problem,) = job_file.problems({PARAMETERS: json.dumps([MEMBERS]), SESSION: first})
    assert problem.key == SESSION
