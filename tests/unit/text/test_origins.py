"""Values fill paths; the origin of an address stays that of its template."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from connectors.address import AddressError
from connectors.http.target import is_same_origin, legal, origin_of
from dil.errors import ConfigError
from dil.text.origins import is_host_entry, own_origin, refuse_other_origin
from dil.text.variables import substitute

TEMPLATES = ["http://h.test:81{{v}}", "http://h.test:81/{{v}}/x?y={{v}}", "https://u:{{v}}@h/x"]
_ODD = st.text(st.sampled_from("@:/\\?#[]%0a1.he\t\n \u2100"), max_size=12)


def taken(template: str, value: str, *hosts: str) -> bool:
    text = legal(substitute(template, {"v": value}).text)
    try:
        refuse_other_origin(template, text, origin_of, hosts)
    except (ConfigError, AddressError):
        return False
    return True


@given(template=st.sampled_from(TEMPLATES), value=st.text() | _ODD)
@example(TEMPLATES[0], "@other/")
@example(TEMPLATES[0], "\\@other/")
@example(TEMPLATES[2], "x@other/")
def test_whatever_is_taken_leads_to_the_host_of_the_template(template: str, value: str) -> None:
    if not taken(template, value):
        return
    text = legal(substitute(template, {"v": value}).text)
    wanted = urlsplit(template.partition("{{v}}")[0])
    try:
        asked = parse_url(text)  # the parser of what sends the request
    except LocationParseError:
        return
    assert (asked.scheme, asked.host, asked.port) == (wanted.scheme, wanted.hostname, wanted.port)


def test_an_address_that_was_encoded_is_refused_with_its_remedy_and_not_shown() -> None:
    with pytest.raises(AddressError) as caught:
        origin_of("https%3A%2F%2Fstore.test%2Fa.csv%3Fsig%3DFq8x")
    assert "Fq8x" not in str(caught.value)
    assert "GET_XE" in caught.value.fix


@pytest.mark.parametrize("template", TEMPLATES[:2])
@pytest.mark.parametrize("value", ["/a", "/a/b?c", "/"])
def test_a_path_is_taken(template: str, value: str) -> None:
    assert taken(template, value)


@pytest.mark.parametrize(
    ("entry", "value", "is_allowed"),
    [
        ("a.test", "https://a.test/x", True),
        ("a.test", "https://A.test/x", True),
        ("a.test", "http://a.test/x", False),
        ("http://a.test", "http://a.test/x", True),
        ("https://a.test", "http://a.test/x", False),
        ("a.test", "https://a.test:444/x", False),
        ("a.test:444", "https://a.test:444/x", True),
        ("a.test", "https://b.a.test/x", False),
        ("*.a.test", "https://b.a.test/x", True),
        ("*.a.test", "https://c.b.a.test/x", False),
        ("*.a.test", "https://a.test/x", False),
        ("a.test", "https://user@a.test/x", False),
        ("*", "https://a.test/x", False),
        ("", "https://a.test/x", False),
    ],
)
def test_an_entry_allows_one_host(entry: str, value: str, is_allowed: bool) -> None:
    assert taken("{{v}}", value, entry) is is_allowed


def test_an_entry_has_the_scheme_and_port_of_the_template_where_it_has_none() -> None:
    assert taken("http://{{v}}:81/x", "a.test", "a.test")
    assert not taken("http://{{v}}:81/x", "a.test:82/?", "a.test")


@pytest.mark.parametrize("text", ["h", "h:1", "https://h", "*.h:2", "[::1]:3", "c@a.dfs.core.test"])
def test_hosts_are_written_with_and_without_scheme_and_port(text: str) -> None:
    assert is_host_entry(text)


@pytest.mark.parametrize("text", ["", "*", "h/x", "h:x", "https://", "a b"])
def test_other_texts_are_no_hosts(text: str) -> None:
    assert not is_host_entry(text)


def test_a_template_whose_values_choose_the_host_has_no_origin() -> None:
    assert own_origin("http://{{v}}/x", origin_of) is None
    assert own_origin("http://a-{{v}}.test/x", origin_of) is None
    assert own_origin("{{v}}", origin_of) is None
    assert str(own_origin("http://user:pw@h:81/{{v}}", origin_of)) == "http://h:81"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("http://h/a", "http://h:80/b", True),
        ("http://h/a", "https://h/b", True),
        ("http://h:81/a", "https://h/b", False),
        ("http://h/a", "https://h:444/b", False),
        ("https://h/a", "http://h/b", False),
        ("http://h/a", "http://h2/b", False),
        ("http://u@h/a", "http://h/b", True),
        ("http://h/a", "nonsense", False),
    ],
)
def test_https_of_the_same_host_is_the_same_origin(before: str, after: str, is_same: bool) -> None:
    assert is_same_origin(before, after) is is_same
