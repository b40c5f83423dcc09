"""``ms.pagination``, ``ms.state.cursor.commit``, payload input: forms, and what fits together."""

from __future__ import annotations

import json

import pytest

from dil.model.settings import FailCondition, Pagination

PAGING = "ms.pagination"
COMMIT = "ms.state.cursor.commit"
PAYLOAD = json.dumps([{"path": "/rows", "fields": ["a"], "category": "payload"}])
CURSOR = {
    "ms.session.key.field": '{"name":"next"}',
    "ms.parameters": '[{"name":"cursor","type":"session"}]',
}


def pagination(job_file, text: str) -> Pagination:
    return job_file.load({PAGING: text}).job.extraction.pagination


def test_members_of_our_own_stand_beside_those_of_dil(job_file):
    text = (
        '{"initialvalues":[0,100],"next":"link","more":"header:X-More","maxPages":"9",'
        '"maxRows":10,"failAtCap":true,"stopOnShortPage":"true","allowEqualPages":true,"queryOnly":true}'
    )
    assert pagination(job_file, text) == Pagination(
        initial_values=(0, 100),
        next="link",
        more="header:X-More",
        max_pages=9,
        max_rows=10,
        fail_at_cap=True,
        stop_on_short_page=True,
        equal_pages=True,
        query_only=True,
    )
    assert not pagination(job_file, '{"next":"link"}').is_on
    assert not Pagination().is_named


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"maxPages":0}', "maxPages is too small"),
        ('{"maxRows":-1}', "maxRows is too small"),
        ('{"maxPage":3}', 'has an unknown member "maxPage"'),
        ('{"more":"link"}', "more is link, and a link is no flag"),
        ('{"next":"header: "}', "next names no header"),
        ('{"next":"Link"}', 'next is "Link"'),
        ('{"initialvalues":[0],"stopOnShortPage":true}', "has stopOnShortPage, and nothing says"),
        ('{"next":"link","failAtCap":true}', "has failAtCap without a cap"),
        ('{"more":"more","queryOnly":true}', "has queryOnly without `next`"),
    ],
)
def test_what_is_wrong_with_paging_is_told(job_file, text, what):
    assert job_file.problem(PAGING, text).what.startswith(what)


def test_the_first_session_key_takes_members_that_every_unit_has(job_file):
    unit = '[{"name": "u", "type": "unit", "units": [{"seq": "7", "at": 1}, {"seq": "8"}]}]'
    rows = {"path": "/rows", "fields": ["token"], "category": "authentication"}
    given = {"ms.secondary.input": json.dumps([rows])}
    facts = {**CURSOR, **given, "ms.watermark": unit}
    key = "ms.session.key.field"
    job_file.load({**facts, key: '{"name":"next","initValue":"{{seq}}"}'})
    for name in ("cursor", "sep", "at", "token"):
        variable = "{{" + name + "}}"
        session = json.dumps({"name": "next", "initValue": variable})
        (found,) = job_file.problems({**facts, key: session})
        assert found.what == f"uses {variable} in initValue, which is not a member of every unit"
    activation = json.dumps([{"path": "/rows", "fields": ["seq"]}])
    job_file.load(
        {**CURSOR, "ms.secondary.input": activation, key: session.replace("token", "seq")}
    )


@pytest.mark.parametrize(
    ("text", "noticed"),
    [
        ('{"next":"paging.next"}', []),
        ('{"initialvalues":[0,9],"more":"more"}', []),
        ('{"initialvalues":[0,9],"stopOnShortPage":true}', []),
        ('{"initialvalues":[0,9],"maxPages":4}', [PAGING]),
    ],
)
def test_only_a_walk_that_an_empty_page_alone_ends_is_noticed(job_file, text, noticed):
    declared = {"ms.parameters": '[{"name":"o","type":"pagestart"}]'}
    assert job_file.notices({PAGING: text, **declared}) == noticed


def test_a_cursor_beside_named_pages_is_noticed(job_file):
    assert job_file.notices({PAGING: '{"next":"link"}', **CURSOR}) == [PAGING]


def test_a_page_parameter_that_nothing_sends_is_noticed(job_file):
    hidden = {
        PAGING: '{"initialvalues":[0,9],"stopOnShortPage":true}',
        "ms.parameters": '[{"name":"tmpStart","type":"pagestart"}]',
    }
    assert job_file.notices(hidden) == ["ms.parameters"]
    used = {**hidden, "ms.source.uri": "https://shop.test/orders?o={{tmpStart}}"}
    assert job_file.notices(used) == []


def test_polling_without_a_pause_is_noted(job_file):
    polls = {"ms.session.key.field": '{"name":"status","condition":{"regexp":"DONE"}}'}
    assert job_file.notices(polls) == ["ms.session.key.field"]
    assert job_file.notices({**polls, "ms.call.interval.millis": "10000"}) == []
    assert job_file.notices({**polls, PAGING: '{"next":"link"}'}) == []


def test_a_cursor_that_nothing_sends_is_refused(job_file):
    found = job_file.problem("ms.session.key.field", '{"name":"next"}')
    assert "no parameter sends it: only the first page would be read" in found.what
    assert '"type": "session"' in found.fix


@pytest.mark.parametrize(
    "given",
    [
        CURSOR,
        {"ms.session.key.field": '{"name":"status","condition":{"regexp":"DONE"}}'},
        {"ms.session.key.field": '{"name":"status","failCondition":{"regexp":"ERR"}}'},
        {
            "ms.session.key.field": '{"name":"next"}',
            "ms.parameters": '[{"name":"page","type":"pageno"}]',
            PAGING: '{"initialvalues":[0,9,1]}',
        },
        {"ms.session.key.field": '{"name":"next"}', PAGING: '{"next":"link"}'},
    ],
)
def test_a_session_key_is_taken_where_something_uses_it(job_file, given):
    assert job_file.load(given).job.extraction.session is not None


@pytest.mark.parametrize(
    ("failing", "what", "fix"),
    [
        ("{}", 'lacks the member "failCondition.regexp"', "the path of a value"),
        ('{"nam":"ok"}', 'has an unknown member "failCondition.nam"', 'Did you mean "name"?'),
        ('{"regexp":"E","retry":{"regexp":"E1"}}', "has failCondition.retry without", "the path"),
        ('{"name":"ok","regexp":"("}', "failCondition.regexp", ""),
        ('{"name":"ok","retry":{"regexp":"("}}', "failCondition.retry.regexp", ""),
        ('{"name":"$.["}', "failCondition.name", "in quotes"),
    ],
)
def test_a_wrong_fail_condition_is_refused_with_the_next_best_form(job_file, failing, what, fix):
    text = f'{{"name":"next","failCondition":{failing}}}'
    found = job_file.problems({**CURSOR, "ms.session.key.field": text})
    assert found[0].what.startswith(what)
    assert fix in found[0].fix


def test_a_session_key_needs_a_name_unless_its_fail_condition_has_one(job_file):
    key = "ms.session.key.field"
    spec = job_file.load({key: '{"failCondition":{"name":"errors"}}'}).job.extraction
    assert (spec.session, spec.failing) == (None, FailCondition(name="errors"))
    assert (
        job_file.problem(key, '{"failCondition":{"regexp":"E"}}').what == 'lacks the member "name"'
    )
    alone = '{"condition":{"regexp":"DONE"},"failCondition":{"name":"errors"}}'
    assert "which condition and initValue need" in job_file.problem(key, alone).what


def test_a_cursor_beside_a_fail_condition_of_another_path_must_be_sent(job_file):
    text = '{"name":"next","failCondition":{"name":"errors"}}'
    assert "no parameter sends it" in job_file.problem("ms.session.key.field", text).what


def test_a_path_of_failures_is_refused_where_rows_come_before_it(job_file):
    failing = {"ms.session.key.field": '{"failCondition":{"name":"error"}}'}
    (found,) = job_file.problems({**failing, "ms.extractor.class": "xml"})
    assert "has failCondition.name, and XML" in found.what


def test_a_cursor_that_has_no_use_is_noticed_where_no_page_is_lost(job_file):
    sftp = {
        "source.class": "sftp",
        "ms.source.uri": "/in/*.json",
        "source.conn.host": "files.test",
        "source.conn.username": "dil",
        "source.conn.password": "env:P",
        "ms.session.key.field": '{"name":"next"}',
    }
    assert "ms.session.key.field" in job_file.notices(sftp, environ={"P": "x"})


def test_a_cursor_whose_parameter_nothing_sends_is_noticed(job_file):
    hidden = {**CURSOR, "ms.parameters": '[{"name":"tmpCursor","type":"session"}]'}
    assert job_file.notices(hidden) == ["ms.parameters"]


def test_a_page_size_alone_does_not_lead_from_page_to_page(job_file):
    sized = {
        PAGING: '{"initialvalues":[0,9],"stopOnShortPage":true}',
        "ms.parameters": '[{"name":"limit","type":"pagesize"}]',
    }
    assert job_file.notices(sized) == [PAGING]


# Progress inside a work unit


def test_page_commit_gives_the_seconds_between_two_savings(job_file):
    def seconds(**more):
        return job_file.load({**CURSOR, **more}).job.running.page_commit_s

    assert seconds() is None
    assert seconds(**{COMMIT: "page"}) == 1
    assert seconds(**{COMMIT: "PAGE", f"{COMMIT}.seconds": "0"}) == 0


def test_page_commit_changes_nothing_of_what_is_extracted(job_file):
    digests = {
        job_file.load({**CURSOR, COMMIT: word, f"{COMMIT}.seconds": seconds}).job.digest
        for word, seconds in (("unit", "1"), ("page", "1"), ("page", "60"))
    }
    assert len(digests) == 1


def test_page_commit_needs_pages(job_file):
    assert job_file.problem(COMMIT, "page").what == "is page, and each work unit is one request"


@pytest.mark.parametrize(
    "paged",
    [
        CURSOR,
        *({PAGING: text} for text in ('{"next":"a"}', '{"initialvalues":[0]}', '{"more":"m"}')),
    ],
)
def test_page_commit_goes_with_every_way_of_paging(job_file, paged):
    assert job_file.load({**paged, COMMIT: "page"}).job.running.page_commit_s == 1


HOLDER = """
from dil.spi.converter import Converter

class Passing(Converter):
    def convert(self, batch, facts):
        yield batch

class Holding(Passing):
    def finish(self):
        yield from ()
"""


def test_page_commit_refuses_a_converter_that_holds_rows_back(job_file):
    (job_file.folder / "own_steps_of_paging.py").write_text(HOLDER)
    commit = {**CURSOR, COMMIT: "page"}
    job_file.load({**commit, "converter.classes": "own_steps_of_paging:Passing"})
    (found,) = job_file.problems({**commit, "converter.classes": "own_steps_of_paging:Holding"})
    assert (found.key, "Holding" in found.what) == (COMMIT, True)


# Rows to send


def test_rows_to_send_need_a_method_with_a_body(job_file):
    (found,) = job_file.problems({"ms.secondary.input": PAYLOAD})
    assert found.key == "ms.http.request.method"
    assert "GET" in found.what


def test_a_cap_would_leave_rows_unsent(job_file):
    found = job_file.problems({"ms.secondary.input": PAYLOAD, PAGING: '{"maxPages":5}'})
    assert PAGING in [problem.key for problem in found]
