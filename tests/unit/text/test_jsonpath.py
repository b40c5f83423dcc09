"""JSONPath as jsonpath-ng understands RFC 9535, in paths that begin with ``$``."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.errors import SourceContractError
from dil.extraction.json.document import Document
from dil.model.path import MISSING, JsonPathError, Reach, is_jsonpath, number
from dil.text.paths import compile_path, find, follow, name_of, places

# RFC 9535, section 1.5.
STORE = {
    "store": {
        "book": [
            {"category": "reference", "author": "Rees", "title": "Sayings", "price": 8.95},
            {"category": "fiction", "author": "Waugh", "title": "Sword", "price": 12.99},
            {"category": "fiction", "author": "Melville", "isbn": "0-553", "price": 8.99},
            {"category": "fiction", "author": "Tolkien", "isbn": "0-395", "price": 22.99},
        ],
        "bicycle": {"color": "red", "price": 399},
    }
}


def values(root, text):
    return [follow(root, steps) for steps in places(compile_path(text), root)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$.store.book[*].author", ["Rees", "Waugh", "Melville", "Tolkien"]),
        ("$..author", ["Rees", "Waugh", "Melville", "Tolkien"]),
        ("$.store..price", [8.95, 12.99, 8.99, 22.99, 399]),
        ("$..book[2].author", ["Melville"]),
        ("$..book[2].publisher", []),
        ("$..book[-1].author", ["Tolkien"]),
        ("$..book[0,1].author", ["Rees", "Waugh"]),
        ("$..book[:2].author", ["Rees", "Waugh"]),
        ("$..book[?@.isbn].author", ["Melville", "Tolkien"]),
        ("$..book[?@.price<10].author", ["Rees", "Melville"]),
        ("$.store.book[?@.category=='fiction' && @.price>20].author", ["Tolkien"]),
        ("$.store.book[?@.author=~'^[MR]'].author", ["Rees", "Melville"]),
        ("$.store.bicycle.*", ["red", 399]),
        ("$['store']['bicycle']['color','price']", ["red", 399]),
        ("$.store.bicycle[*]", ["red", 399]),
        ("$.store.bicycle[0]", []),
        ("$.store.book.author", []),
        ("$", [STORE]),
    ],
)
def test_an_expression_finds_what_the_standard_says(text, expected):
    assert values(STORE, text) == expected
    document = Document(json.dumps(STORE).encode())
    assert [json.loads(bytes(each)) for each in document.each(compile_path(text))] == expected


@pytest.mark.parametrize(
    "text", ["$id", "$", "$.a", "$[0]", "$$", "a.$.b", "", "@.a", "$ .a", " $"]
)
def test_only_a_root_with_something_behind_it_is_jsonpath(text):
    assert is_jsonpath(text) == (text in {"$", "$.a", "$[0]"})


def test_what_is_no_jsonpath_is_a_dot_path_as_ever():
    page = {"$id": 1, "a": {"$": {"b": 2}}, "0": "name"}
    assert find(page, "$id") == 1
    assert find(page, "a.$.b") == 2
    assert find(page, "0") == "name"
    assert find([5], "0") == 5


def test_names_and_numbers_are_not_mixed_up_in_jsonpath():
    """A dot path takes 0 for a name and for a number, whichever is there."""
    assert find([5], "$['0']") is MISSING
    assert find({"0": 5}, "$['0']") == 5
    assert find({"0": 5}, "$[0]") is MISSING
    assert find([5], "$[0]") == 5


def test_quotes_lead_to_names_that_no_dot_path_can_write():
    page = {"@odata.nextLink": "/2", "a b": {"it's": 1, "é": 2, "*": 3}}
    assert find(page, "$['@odata.nextLink']") == "/2"
    assert find(page, r"$['a b']['it\'s']") == 1
    assert find(page, "$['a b']['é']") == 2
    assert find(page, "$['a b']['*']") == 3
    assert find(page, "@odata.nextLink") is MISSING


@pytest.mark.parametrize(
    ("text", "steps", "reach"),
    [
        ("$", (), Reach.PLACE),
        ("$.a['b.c'][0]", ("a", "b.c", 0), Reach.PLACE),
        ("$.a[-1]", ("a", -1), Reach.PLACE),
        ("$.a[*]", ("a",), Reach.CHILDREN),
        ("$.a.*", ("a",), Reach.CHILDREN),
        ("$[*]", (), Reach.CHILDREN),
        ("$.a[*].b", ("a",), Reach.SEARCH),
        ("$.a[?@.b]", ("a",), Reach.SEARCH),
        ("$.a..b", ("a",), Reach.SEARCH),
        ("$.a['b','c']", ("a",), Reach.SEARCH),
        ("$.a['0']", ("a",), Reach.SEARCH),
        ("$.a[1:]", ("a",), Reach.SEARCH),
    ],
)
def test_an_expression_of_names_and_numbers_is_followed_without_a_search(text, steps, reach):
    path = compile_path(text)
    assert (path.steps, path.reach) == (steps, reach)
    assert pickle.loads(pickle.dumps(path)) == path
    assert compile_path(text) is path


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("$.", 2),
        ("$.a[", 4),
        ("$.a b", 5),
        ("$.$id", 4),
        ("$.é", 3),
        ("$.a[?@.x==]", 11),
        ("$.a[?(@.x", 9),
        ("$.*~", 4),
    ],
)
def test_what_does_not_parse_is_refused_with_the_position_of_the_character(text, position):
    with pytest.raises(JsonPathError) as caught:
        compile_path(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "$.a.`len`",
        "$.a.`sorted`",
        "$.a[/b]",
        "$.a + 1",
        "$.a | $.b",
        "$.a.`parent`",
        "$.a where b",
        "$.a.`sub(/x/,y)`",
        "$.a.`unheard`",
        "$.a[?@.b =~ '(']",
    ],
)
def test_what_calculates_instead_of_selecting_places_is_refused(text):
    with pytest.raises(JsonPathError):
        compile_path(text)


def test_equal_matches_are_one_value_and_different_ones_are_refused():
    page = {"rows": [{"next": "b"}, {"next": "b"}, {"id": 1}]}
    assert find(page, "$..next") == "b"
    assert find(page, "$.rows[*].none") is MISSING
    with pytest.raises(SourceContractError, match="2 different values"):
        find({"rows": [{"next": "b"}, {"next": "c"}]}, "$..next")
    with pytest.raises(SourceContractError):
        find({"rows": [{"next": 1}, {"next": True}]}, "$..next")


def test_filters_compare_decimals_and_values_keep_their_digits():
    rows = [{"n": Decimal("0.12345678901234567890"), "id": "a"}, {"n": 2, "id": "b"}]
    assert find({"rows": rows}, "$.rows[?@.n < 0.5].n") == Decimal("0.12345678901234567890")
    text = b'{"rows":[{"n":0.12345678901234567890},{"n":2}]}'
    assert Document(text).lookup("$.rows[?@.n<0.5].n") == Decimal("0.12345678901234567890")


@pytest.mark.parametrize(
    ("text", "name"),
    [("$.a.token", "token"), ("$['a b']", "a b"), ("$.a[0]", ""), ("$", ""), ("$.a[*].b", "")],
)
def test_the_name_of_a_value_is_its_last_step(text, name):
    assert name_of(text) == name


def test_other_texts_are_names_themselves():
    assert name_of("a.b") == "a.b"


names = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="."), min_size=1)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


def _every_place(value, before=()):
    yield before
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for step, each in inside:
        yield from _every_place(each, (*before, step))


@pytest.mark.parametrize("name", ["-", "-a", "a-", "where", "wherenot", "a b", "é", ""])
def test_a_name_that_is_shown_in_jsonpath_can_be_read_again(name):
    shown = compile_path("$").shown((name, "b"))
    assert values({name: {"b": 1}}, shown) == [1]


@given(documents, st.data())
def test_a_dot_path_and_its_jsonpath_find_the_same_place(document, data):
    steps = data.draw(st.sampled_from(list(_every_place(document))))
    if any(isinstance(step, str) and number(step) is not None for step in steps):
        return  # such a name is a number to a dot path, where there is an array
    dotted = compile_path(".".join(map(str, steps)))
    as_jsonpath = compile_path(compile_path("$").shown(steps))

    assert values(document, as_jsonpath.text) == [follow(document, steps)]
    if steps and steps[0] != "" and not is_jsonpath(dotted.text):
        assert values(document, dotted.text) == [follow(document, steps)]
    raw = Document(json.dumps(document).encode())
    assert raw.lookup(as_jsonpath.text) == follow(document, steps)


@given(documents)
def test_a_search_for_everything_finds_each_place_once(document):
    found = places(compile_path("$..*"), document)
    assert sorted(map(repr, found)) == sorted(repr(each) for each in _every_place(document) if each)


def test_jsonpath_ng_is_loaded_by_its_first_expression_and_not_before():
    script = (
        "import sys\n"
        "from dil.text.paths import compile_path, find\n"
        "find({'$id': {'a': [1]}}, '$id.a.0')\n"
        "assert 'jsonpath_ng' not in sys.modules\n"
        "compile_path('$.a')\n"
        "assert 'jsonpath_ng' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
