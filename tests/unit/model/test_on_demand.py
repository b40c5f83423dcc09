"""Sequences that make their items when they are looked at behave as tuples do."""

import pickle

import pytest

from dil.model.on_demand import OnDemand


def double(position: int) -> str:
    return "x" * (2 * position)


ITEMS = OnDemand(double, range(4))


def test_it_has_the_items_of_the_tuple_it_stands_for() -> None:
    assert len(ITEMS) == 4
    assert (ITEMS[1], ITEMS[-1]) == ("xx", "xxxxxx")
    assert list(reversed(ITEMS)) == ["xxxxxx", "xxxx", "xx", ""]
    assert "xx" in ITEMS
    with pytest.raises(IndexError):
        ITEMS[4]


def test_slices_keep_their_places() -> None:
    assert ITEMS[1:][0] == "xx"
    assert tuple(ITEMS[::-2]) == ("xxxxxx", "xx")


def test_it_equals_tuples_and_its_like_with_equal_items() -> None:
    items, same = OnDemand(double, range(4)), ("", "xx", "xxxx", "xxxxxx")

    assert items == same
    assert same == items
    assert items == OnDemand(double, range(4))
    assert hash(items) == hash(same)
    assert repr(items) == repr(same)
    assert items != same[:3]
    assert items != ("", "xx", "xxxx", "y")
    assert items == list(same)
    assert items != "xx"


def test_it_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(ITEMS)) == ITEMS
