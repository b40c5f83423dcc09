from hypothesis import given
from hypothesis import strategies as st

from dil.text.variables import placeholders, substitute


def test_names_are_listed_once_in_order_of_appearance():
    assert placeholders("{{b}}/{{a.$-_9}}?x={{b}}") == ("b", "a.$-_9")


def test_blanks_and_empty_names_are_no_placeholders():
    assert placeholders("{{ a }} {{}} {a} {{a b}}") == ()


def test_a_placeholder_without_value_stays_and_is_reported():
    result = substitute("{{a}}-{{b}}", {"a": "x"})
    assert (result.text, result.used, result.missing) == ("x-{{b}}", {"a"}, {"b"})


def test_a_replaced_value_is_not_looked_at_again():
    assert substitute("{{a}}", {"a": "{{b}}", "b": "x"}).text == "{{b}}"


def test_values_of_every_kind_have_their_text():
    values = {"n": 5, "f": 5.0, "t": True, "z": None, "o": {"k": [1, "é"]}}
    assert substitute("{{n}} {{f}} {{t}} {{z}} {{o}}", values).text == '5 5 true  {"k":[1,"é"]}'


def test_only_values_are_encoded():
    assert substitute("a b {{x}}", {"x": "c d"}, lambda text: text.replace(" ", "+")).text == (
        "a b c+d"
    )


def test_a_third_brace_is_literal_text():
    assert substitute("{{{a}}}", {"a": "1"}).text == "{1}"


@given(st.text(alphabet="ab{}", max_size=12), st.text(max_size=5))
def test_replacing_everything_leaves_nothing_missing(text, value):
    result = substitute(text, dict.fromkeys(placeholders(text), value))
    assert result.missing == frozenset()
    assert result.used == set(placeholders(text))
