import pytest

from dil.errors import ConfigError
from dil.extraction.parameters import PageValues, ParameterScope, evaluate
from dil.model.json import WrittenNumber
from dil.model.secret import Secret
from dil.model.settings import Parameter
from dil.sections.reading import build

LOW, HIGH = 1_577_865_600_123, 1_577_952_000_000  # 2020-01-01T00:00:00.123 in Los Angeles


def scope(**variables):
    return ParameterScope(LOW, HIGH, full_extract=True, variables=variables)


def values(*members, on=None, pages=None):
    parameters = [build(Parameter, member) for member in members]
    return evaluate(parameters, on or scope(), pages or PageValues())


def sent(*members, **more):
    return dict(values(*members, **more).parameters)


def test_the_worked_example_of_b6_6():
    result = sent(
        {"name": "from", "type": "watermark", "value": "low", "format": "datetime",
         "pattern": "yyyy-MM-dd"},
        {"name": "tmpA", "value": "x y"},
        {"name": "q", "value": "since:{{from}} {{tmpA}}"},
        {"name": "limit", "type": "primitive", "value": 5},
    )  # fmt: skip
    assert result == {"from": "2020-01-01", "q": "since:2020-01-01 x y", "limit": 5}
    assert list(result) == ["from", "q", "limit"]


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (5, "5"), (True, "true"), (None, ""), ([], ""), (["x"], "x"), (["f", "i"], "f")],
)
def test_a_list_parameter_is_text_and_takes_element_0_in_a_full_run(value, text):
    assert sent({"name": "p", "value": value}) == {"p": text}


def test_a_list_parameter_takes_element_1_in_an_incremental_run():
    incremental = ParameterScope(LOW, HIGH, full_extract=False)
    assert sent({"name": "p", "value": ["f", "i"]}, on=incremental) == {"p": "i"}
    assert sent({"name": "p", "value": ["f"]}, on=incremental) == {"p": "f"}


def test_secrets_in_list_values_are_revealed():
    assert sent({"name": "p", "value": [Secret("key"), "x"]}) == {"p": "key"}


def test_primitive_keeps_its_json_type_and_must_have_a_value():
    assert sent({"name": "p", "type": "PRIMITIVE", "value": 2.5}) == {"p": 2.5}
    with pytest.raises(ConfigError) as caught:
        sent({"name": "p", "type": "primitive"})
    assert caught.value.problems[0].key == "ms.parameters"


def test_objects_nest_and_leave_out_members_without_value():
    inner = (Parameter(name="key", type="session"), Parameter(name="n", type="primitive", value=1))
    assert sent({"name": "o", "type": "object", "value": inner}) == {"o": {"n": 1}}
    one = Parameter(name="p", type="object", value=Parameter(name="q", value="v"))
    assert sent({"name": "o", "type": "object", "value": one}) == {"o": {"p": {"q": "v"}}}


def test_json_values_pass_and_their_texts_are_substituted():
    assert sent(
        {"name": "id", "type": "primitive", "value": 7},
        {"name": "a", "type": "jsonarray", "value": [1, "x{{id}}"]},
        {"name": "o", "type": "jsonobject", "value": {"k": {"l": "{{id}}"}}},
    ) == {"id": 7, "a": [1, "x7"], "o": {"k": {"l": "7"}}}


@pytest.mark.parametrize(
    ("members", "value"),
    [
        ({}, LOW),
        ({"format": "anything"}, LOW),
        ({"format": "epoc-second"}, 1_577_865_600),
        ({"format": "epoch-second"}, 1_577_865_600),
        ({"format": "datetime", "pattern": "yyyy-MM-dd'T'HH:mm:ss'Z'"}, "2020-01-01T00:00:00Z"),
        ({"format": "datetime", "pattern": "yyyy-MM-dd'T'HH:mmZ"}, "2020-01-01T00:00-0800"),
        ({"format": "datetime", "pattern": "ZZ"}, "-08:00"),
        ({"format": "datetime", "pattern": "ss.SSSSSS"}, "00.123000"),
        ({"format": "datetime", "pattern": "HH", "timezone": "UTC"}, "08"),
    ],
)
def test_watermark_formats(members, value):
    assert sent({"name": "w", "type": "watermark", "value": "Low", **members}) == {"w": value}


def test_any_other_watermark_word_means_high():
    assert sent({"name": "w", "type": "watermark", "value": "HIGH"}) == {"w": HIGH}


@pytest.mark.parametrize(
    ("members", "value"),
    [
        ({}, 1_577_836_799_999),
        ({"format": "epoch-second"}, 1_577_836_799),
        ({"format": "datetime", "pattern": "yyyy-MM-dd", "timezone": "UTC"}, "2019-12-31"),
        ({"format": "datetime", "pattern": "HH:mm:ss.SSS", "timezone": "UTC"}, "23:59:59.999"),
    ],
)
def test_the_last_instant_is_a_millisecond_before_the_end(members, value):
    year = ParameterScope(0, 1_577_836_800_000, full_extract=True)  # to 2020-01-01T00:00:00Z
    assert sent({"name": "w", "type": "watermark", "value": "Last", **members}, on=year) == {
        "w": value
    }


def test_a_low_watermark_below_zero_is_left_out():
    negative = ParameterScope(-1, HIGH, full_extract=True)
    assert sent({"name": "w", "type": "watermark", "value": "low"}, on=negative) == {}


def test_page_values_without_value_are_left_out():
    members = [{"name": n, "type": n} for n in ("pagestart", "pagesize", "pageno", "session")]
    assert sent(*members) == {}
    pages = PageValues(start=0, size=100, number=1, session="c")
    assert sent(*members, pages=pages) == {
        "pagestart": 0, "pagesize": 100, "pageno": 1, "session": "c"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ('[1709251200123456789,"a\\"b",null]', [1709251200123456789, 'a"b', None]),
        ('{"id":{"S":"k7"}}', {"id": {"S": "k7"}}),
        ("[1.50]", [WrittenNumber("1.50")]),
        ("k7", "k7"),
        ("17", "17"),
        ("[7", "[7"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_session_key_of_format_json_is_sent_as_the_array_or_object_that_it_is(key, value):
    member = {"name": "c", "type": "session", "format": "json"}
    assert sent(member, pages=PageValues(session=key)) == {"c": value}
    assert sent(member, pages=PageValues(session="")) == {}
    plain = {"name": "c", "type": "session"}
    assert sent(plain, pages=PageValues(session=key)) == {"c": key}


MEMBERS = {"name": "c", "type": "session", "format": "members"}


def test_a_session_key_of_format_members_is_sent_as_parameters_of_the_names_of_its_members():
    limit = {"name": "limit", "type": "primitive", "value": 5}
    start = {"name": "from", "value": "A"}
    key = PageValues(session='{"from":"B","n":1.50,"gone":null}')
    after = {"from": "B", "limit": 5, "n": WrittenNumber("1.50")}
    assert sent(MEMBERS, limit, start, pages=key) == after
    for none in (PageValues(), PageValues(session=""), PageValues(session="{}")):
        assert sent(MEMBERS, limit, start, pages=none) == {"limit": 5, "from": "A"}
    assert sent({**MEMBERS, "name": "tmpC"}, pages=key) == {"from": "B", "n": WrittenNumber("1.50")}
    with pytest.raises(ConfigError):  # A value that filled initValue has a quote.
        sent(MEMBERS, pages=PageValues(session='{"from":"B"C"}'))
    # A name that the source gives fills no text of the job.
    assert sent(MEMBERS, {"name": "q", "value": "{{n}}"}, pages=key)["q"] == "{{n}}"


def test_a_unit_replaces_a_session_key_of_format_members_as_it_replaces_others():
    assert sent(MEMBERS, on=scope(c="u"), pages=PageValues(session='{"a":1}')) == {"c": "u"}


def test_a_first_session_key_of_format_members_must_be_an_object():
    with pytest.raises(ConfigError):
        sent(MEMBERS, pages=PageValues(session="7"))


def test_an_empty_session_key_is_a_variable_but_not_sent():
    result = values({"name": "c", "type": "session"}, pages=PageValues(session=""))
    assert result.variables == {"c": ""}
    assert result.parameters == {}


def test_unit_variables_are_not_sent_unless_declared():
    result = values({"name": "id", "value": "declared"}, on=scope(id="unit", token="t"))
    assert result.parameters == {"id": "unit"}
    assert result.variables == {"id": "unit", "token": "t"}


def test_a_declared_parameter_without_value_takes_the_units():
    assert sent({"name": "c", "type": "session"}, on=scope(c="unit")) == {"c": "unit"}


def test_substitution_is_one_level_deep_whatever_the_order():
    assert sent(
        {"name": "a", "value": "{{b}}"},
        {"name": "b", "value": "{{c}}"},
        {"name": "c", "value": "x"},
    ) == {"a": "{{c}}", "b": "x", "c": "x"}


def test_quotes_in_values_do_no_harm():
    assert sent({"name": "a", "value": 'say "{{b}}"'}, {"name": "b", "value": '"}'}) == {
        "a": 'say ""}"', "b": '"}'
    }  # fmt: skip


def test_unused_temporaries_are_not_sent_but_are_variables():
    result = values({"name": "tmpX", "value": "v"})
    assert result.parameters == {}
    assert result.variables == {"tmpX": "v"}


def test_a_later_parameter_of_the_same_name_wins():
    assert sent({"name": "a", "value": "1"}, {"name": "a", "value": "2"}) == {"a": "2"}


def test_a_parameter_that_refers_to_itself_is_refused():
    with pytest.raises(ConfigError):
        sent({"name": "a", "value": "x{{a}}"})


TEMPLATE = "a{{p}}{{token}}"
OTHER = {"name": "p", "value": "X"}


@pytest.mark.parametrize(
    "member",
    [
        {"name": "v", "type": "session"},
        {"name": "v", "value": "declared"},
        {"name": "v", "type": "primitive", "value": "{{p}}"},
        {"name": "v", "type": "jsonobject", "value": {"k": "{{p}}"}},
    ],
)
def test_a_value_of_a_unit_or_an_authentication_field_is_no_template(member):
    on = scope(v=TEMPLATE, token="s3cret")
    assert sent(member, OTHER, on=on) == {"v": TEMPLATE, "p": "X"}
    assert values(member, OTHER, on=on).variables["v"] == TEMPLATE


def test_a_unit_whose_value_names_itself_is_a_value_like_any_other():
    assert sent({"name": "v", "value": ""}, on=scope(v="{{v}}")) == {"v": "{{v}}"}


@pytest.mark.parametrize("key", [TEMPLATE, "{{v}}"])
def test_a_session_key_is_no_template(key):
    pages, on = PageValues(session=key), scope(token="s3cret")
    session = {"name": "v", "type": "session"}
    assert sent(session, OTHER, pages=pages, on=on) == {"v": key, "p": "X"}
    inside = Parameter(name="v", type="session")
    nested = {"name": "o", "type": "object", "value": (inside, Parameter(name="q", value="{{p}}"))}
    assert sent(nested, OTHER, pages=pages, on=on) == {"o": {"v": key, "q": "X"}, "p": "X"}


def test_the_text_of_a_watermark_is_no_template():
    watermark = {"name": "w", "type": "watermark", "value": "low", "format": "datetime"}
    assert sent({**watermark, "pattern": "yyyy'{{p}}'"}, OTHER) == {"w": "2020{{p}}", "p": "X"}


def test_a_declared_text_takes_values_of_the_source_as_they_are():
    pages, on = PageValues(session="{{p}}"), scope(file="{{q}}.csv")
    result = sent(
        {"name": "q", "value": "{{file}}|{{c}}"}, {"name": "c", "type": "session"}, OTHER,
        pages=pages, on=on,
    )  # fmt: skip
    assert result == {"q": "{{q}}.csv|{{p}}", "c": "{{p}}", "p": "X"}


def test_a_request_does_not_print_the_secrets_that_it_reveals():
    token = Parameter(name="token", type="primitive", value=Secret("s3cret"))
    values = evaluate(
        [token], ParameterScope(0, 1, full_extract=True, variables={"k": "s3cret"}), PageValues()
    )
    assert values.parameters["token"] == "s3cret"
    assert "s3cret" not in repr(values)
    assert "s3cret" not in repr(ParameterScope(0, 1, full_extract=True, variables={"k": "s3cret"}))
