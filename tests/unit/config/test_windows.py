"""Windows over a dataset: what does not go together, and which runs close any."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil import config
from dil.errors import ConfigError
from dil.model.derived import Closing, WindowSpec
from tests.derived import Lake

WINDOWS = {
    "ms__query__mode": "windowed",
    "ms__window__column": "id",
    "ms__window__size": "PT1H",
    "ms__window__aggs": '{"total": "sum(amount)"}',
}


@pytest.fixture
def lake(tmp_path) -> Lake:
    return Lake(tmp_path / "lake")


def test_the_windows_are_the_query(lake) -> None:
    job = lake.job(lake.derive("hourly", "", **WINDOWS, ms__window__keys="site, `x"))

    assert job.query is not None
    assert job.query.text == (
        "SELECT window.start AS window_start, window.end AS window_end, `site`, ```x`,"
        " sum(amount) AS `total` FROM `orders` GROUP BY window(__dil_event_time,"
        " '3600000 milliseconds', '3600000 milliseconds'), `site`, ```x`"
    )
    assert json.loads(job.query.transform)["column"] == "id"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"ms__window__size": ""}, "is windowed, and ms.window.size is not set"),
        ({"ms__window__column": ""}, "is windowed, and ms.window.column is not set"),
        ({"ms__window__slide": "PT2H"}, "is longer than ms.window.size"),
        ({"ms__window__aggs": '{"total": 3}'}, 'has no aggregate for "total"'),
        ({"ms__window__keys": "Total"}, 'has the column "total", which is one of ms.window.keys'),
        ({"ms__window__keys": "window_end"}, "which is the end of the window"),
        ({"ms__publish__mode": "replace"}, "ms.query.mode is windowed, and rows would be"),
        ({"ms__query__function": "a:b"}, "the windows are the query"),
        (
            {
                "ms__dedupe__keys": "id",
                "ms__dedupe__column": "amount",
                "ms__dedupe__within": "PT1M",
            },
            "ms.dedupe.keys does not go with ms.query.mode=windowed",
        ),
        (
            {
                "ms__query__inputs": '[{"job": "orders.conf", "as": "orders"}, {"dataset": "c",'
                ' "as": "c", "state.store": {"type": "sqlite", "dir": "state"}}]'
            },
            "ms.query.mode is windowed, and there are 2 inputs",
        ),
        (
            {"ms__query__inputs": '[{"job": "orders.conf", "as": "orders", "closed": true}]'},
            "[0].closed is true, and ms.query.mode=windowed waits for the watermark",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(lake, changes, what) -> None:
    path = lake.derive("hourly", "", **{**WINDOWS, **changes})
    with pytest.raises(ConfigError) as caught:
        config.load(path, environ={})
    assert what in "\n".join(map(str, caught.value.problems))


def test_an_input_whose_rows_go_away_is_refused(lake) -> None:
    text = lake.orders.read_text() + "ms.publish.mode=replace\nms.source.files.once=\n"
    lake.orders.write_text(text.replace("ms.source.files.once=path\n", ""))
    with pytest.raises(ConfigError, match=r"ms\.query\.mode=windowed cannot remove"):
        lake.job(lake.derive("hourly", "", **WINDOWS))


@given(
    size=st.integers(1, 30),
    slide=st.integers(1, 30),
    after=st.integers(-100, 100),
    ahead=st.integers(0, 60),
)
def test_a_run_closes_windows_exactly_where_one_ends(size, slide, after, ahead) -> None:
    slide = min(size, slide)
    spec = WindowSpec("at", size, slide, (), (("n", "count(*)"),))
    ends = {start * slide + size for start in range(-300, 300)}

    closes = spec.closes_any(Closing(after, after + ahead))

    assert closes == any(after < end <= after + ahead for end in ends)
