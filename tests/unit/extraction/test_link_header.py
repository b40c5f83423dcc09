"""The ``Link`` header of RFC 8288, as sources write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.extraction.paging.answers import next_link


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('<https://h/?page=2>; rel="next"', "https://h/?page=2"),
        ("<https://h/?page=2>;rel=next", "https://h/?page=2"),
        ('<https://h/1>; rel="prev", <https://h/3>; rel="next"', "https://h/3"),
        ('<https://h/a,b;c>; rel="next"', "https://h/a,b;c"),  # commas belong to the address
        ('<?page=3>; title="a, \\"b\\"; rel=prev"; rel="next"', "?page=3"),
        ('<2>; REL="prev NEXT"', "2"),  # several relations, any letter case
        ('<2>; rel="last"; rel="next"', None),  # only the first rel counts
        ('<2>; rel="nextish"', None),
        ('<2>; rel="next"; anchor="#other"', None),
        ("<2>; rel", None),
        ("< https://h/2 > ; rel = next", "https://h/2"),
        ("<>; rel=next", ""),
        ("", None),
        ("nonsense", None),
    ],
)
def test_the_address_of_the_relation_next_is_found(header, expected):
    assert next_link(header) == expected


@given(st.text(alphabet='<>;,="\\ relnxt/?', max_size=60))
def test_no_header_whatever_it_holds_is_an_error(header):
    assert next_link(header) is None or isinstance(next_link(header), str)


ADDRESSES = st.text(alphabet="abc/?&=,;:%20", min_size=1, max_size=20)
TITLES = st.text(alphabet='ab,;<> "\\', max_size=10)


@given(st.lists(st.tuples(ADDRESSES, TITLES), max_size=4), ADDRESSES)
def test_the_next_link_is_found_behind_any_others(others, address):
    def quoted(text):
        return text.replace("\\", "\\\\").replace('"', '\\"')

    links = [f'<{each}>; title="{quoted(title)}"; rel="prev"' for each, title in others]
    assert next_link(", ".join([*links, f"<{address}>; rel=next"])) == address.strip()
