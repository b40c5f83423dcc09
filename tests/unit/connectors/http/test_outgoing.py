"""Requests as they are built: bodies, addresses, and what may be repeated."""

import json
from decimal import Decimal
from urllib.parse import parse_qsl
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.http.outgoing import Credentials, build_outgoing
from connectors.http.settings import HttpSettings, SessionEnvironment
from dil.errors import ConfigError, SourceContractError
from dil.model.secret import Secret
from dil.secrets import learned
from dil.spi.connector import RequestValues

TEXTS = st.text(max_size=20)
NUMBERS = (
    st.integers()
    | st.booleans()
    | st.none()
    | st.decimals(allow_nan=False, allow_infinity=False, places=30)
)
JSON_VALUES = st.recursive(
    TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, max_size=4)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def built(values, uri="https://shop.test/x", **members):
    return build_outgoing(HttpSettings(uri=uri, **members), values)


@given(left=OBJECTS, payload=OBJECTS)
def test_a_json_body_means_exactly_left_overs_with_the_row_on_top(left, payload):
    found = built(RequestValues(left, left, payload=payload), method="POST").body
    read = json.loads(found, parse_float=Decimal, parse_int=int)
    assert read == {**left, **payload}


@given(payload=st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_a_form_body_means_exactly_the_row(payload):
    found = built(RequestValues({}, {}, payload=payload), method="POST", headers=FORM).body
    assert dict(parse_qsl(found.decode("ascii"), keep_blank_values=True, strict_parsing=False)) == {
        **payload
    }


@given(text=st.text(alphabet=st.characters(categories=["Cs", "L"]), min_size=1, max_size=8))
def test_half_a_surrogate_pair_breaks_no_request(text):
    payload = {"t": text}
    found = built(RequestValues(payload, payload, payload=payload), method="POST").body
    assert json.loads(json.dumps(json.loads(found))) == json.loads(json.dumps(payload))
    assert built(RequestValues(payload, payload)).uri.isascii()


def test_get_has_no_body_and_no_content_type_of_ours():
    found = built(RequestValues({"a": 1}, {"a": 1}))
    assert (found.method, found.body, dict(found.headers)) == ("GET", None, {})


def test_what_prints_a_request_prints_no_value_of_it():
    values = RequestValues({"a": "s3cret"}, {"a": "s3cret"}, payload={"b": "s3cret"})
    found = built(values, "https://shop.test/x?k=s3cret", method="POST", headers={"X": "s3cret"})
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("own", "named", "is_followed"),
    [
        ("https://h/x", "https://h/y", True),
        ("https://h/x", "https://h:443/y", True),
        ("https://H/x", "HTTPS://h/y", True),
        ("http://h:80/x", "https://h/y", True),
        ("https://h/x", "http://h/y", False),
        ("http://h:8080/x", "https://h:8080/y", False),
        ("https://h/x", "https://h:8443/y", False),
        ("https://h/x", "https://h.evil/y", False),
        ("https://h/x", "https://h\\@evil/y", False),
        ("https://h/x", "ftp://h/y", False),
        ("https://h/x", "/y", False),
        ("https://h/x", "https://[h/y", False),
    ],
)
def test_only_an_address_of_the_jobs_own_origin_is_followed(own, named, is_followed):
    values = RequestValues({}, {}, next_uri=named)
    if is_followed:
        assert built(values, own).uri == named
    else:
        with pytest.raises(SourceContractError):
            built(values, own)


def test_an_address_of_a_host_that_the_job_lists_is_followed():
    named = "https://pages.test/x?page=2"
    values = RequestValues({}, {}, next_uri=named)
    assert built(values, hosts=("pages.test",)).uri == named
    with pytest.raises(SourceContractError):
        built(values, hosts=("http://pages.test", "other.test"))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_is_named_with_its_parameters_and_without_their_values(method):
    given = {"since": "hidden", "page": 7}
    shown = built(RequestValues(given, given), method=method).shown
    assert shown == f"{method} https://shop.test/x (since, page)"


# Bodies that the job writes as text

XML = {"Content-Type": "text/xml; charset=utf-8"}


def written(text, values, headers=XML, declared=()):
    return built(
        RequestValues(values, values),
        method="POST",
        body=text,
        headers=headers,
        declared=frozenset(declared),
    )


@given(value=st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), max_size=20))
def test_values_stay_texts_in_a_body_of_xml(value):
    found = written('<a k="{{v}}">{{v}}</a>', {"v": value})
    root = ET.fromstring(found.body)
    assert (root.get("k"), root.text or "", len(root)) == (value, value, 0)


def test_values_come_as_they_are_into_other_texts_and_the_rest_goes_to_the_query():
    plain = {"Content-Type": "text/plain"}
    found = written("SELECT '{{v}}' & ü", {"v": "a&b", "limit": 5}, plain)
    assert (found.body, found.uri) == ("SELECT 'a&b' & ü".encode(), "https://shop.test/x?limit=5")


def test_a_cursor_that_has_no_value_yet_is_empty_in_the_body():
    assert written("<a>{{cursor}}</a>{{ x }}", {}, declared=["cursor"]).body == b"<a></a>{{ x }}"


def test_a_body_that_lacks_a_value_is_not_sent():
    with pytest.raises(ConfigError, match=r"ms\.http\.request\.body needs \{\{x\}\}"):
        written("<a>{{x}}</a>", {"y": 1})


@given(value=TEXTS.filter(lambda text: text.isprintable()))
def test_values_stay_texts_in_lines_of_json(value):
    lines = {"Content-Type": "application/x-ndjson"}
    found = written(
        '{"n": {{n}}}\n{"k": "{{v}}", "o": {{o}}}', {"v": value, "n": 1, "o": [2]}, lines
    )
    assert found.body.endswith(b"\n")
    assert [json.loads(line) for line in found.body.decode().split("\n")[:-1]] == [
        {"n": 1},
        {"k": value, "o": [2]},
    ]


def test_half_a_surrogate_pair_in_a_body_is_refused_and_not_shown():
    with pytest.raises(ConfigError, match=r"half of a surrogate pair") as caught:
        written("<a>{{v}}</a>", {"v": "Zoe\ud83d"})
    assert "Zoe" not in str(caught.value)


def test_the_key_of_a_row_replaces_a_header_of_that_name():
    row = RequestValues({}, {}, payload={"id": 1}, idempotency_key="k1")
    headers = {"idempotency-key": "of the job"}
    found = built(row, method="POST", headers=headers, idempotency_header="Idempotency-Key").headers
    keys = {name: text for name, text in found.items() if name.lower() == "idempotency-key"}
    assert keys == {"Idempotency-Key": "k1"}


def test_renewed_fields_of_the_authentication_input_are_learned_to_be_masked():
    found = {"token": Secret("renewed-7"), "user": Secret("user-7")}
    environment = SessionEnvironment(renewed=lambda: found)
    Credentials(HttpSettings(uri="https://shop.test/x"), environment).renew_input()
    assert set(found.values()) <= set(learned())


def test_renewed_fields_replace_parameters_of_the_job_and_none_that_the_source_gave():
    environment = SessionEnvironment(renewed=lambda: {"key": Secret("k2"), "token": Secret("t2")})
    credentials = Credentials(HttpSettings(uri="https://shop.test/x"), environment)
    credentials.renew_input()
    cursor = {"token": "of the session key"}
    values = RequestValues({"key": "k1"}, {"key": "k1", **cursor}, given=frozenset(cursor))
    assert credentials.overlaid(values).parameters == {"key": "k2", **cursor}


def test_what_the_source_gave_is_sent_beside_texts_that_use_a_variable_of_its_name():
    settings = HttpSettings(
        uri="https://shop.test/x?size={{size}}", headers={"Authorization": "Bearer {{token}}"}
    )
    variables = {"size": 5, "token": "login"}
    cursor = {"size": 9, "token": "page2", "a\nb": 1}
    outgoing = build_outgoing(settings, RequestValues(variables, cursor, given=frozenset(cursor)))
    assert outgoing.uri == "https://shop.test/x?size=5&size=9&token=page2&a%0Ab=1"
    assert outgoing.headers["Authorization"] == "Bearer login"
    assert "\n" not in outgoing.shown
