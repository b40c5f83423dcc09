"""Which row groups may hold changed keys: what a plain look at each key and row group tells."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dil.model.destination import MergeSpec
from dil.reshaping.files import DatasetFiles
from dil.reshaping.keys import KeyReader
from dil.reshaping.matching import BoundsReader, may_hold
from dil.storage import LocalFilesystem
from tests.merging import FILES, Lake

NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "long": (pa.int64(), lambda n: (n - 4) * 2**59),
    "text": (pa.string(), lambda n: ("", "B", "a", "aa", "é", "\uffff", "😀", "😀😀")[n]),
    "bytes": (pa.binary(), lambda n: bytes([n * 36])),
    "decimal": (pa.decimal128(20, 2), lambda n: Decimal(n - 4) / 100),
    "instant": (pa.timestamp("us", tz="UTC"), lambda n: NOON + dt.timedelta(microseconds=n)),
    "date": (pa.date32(), lambda n: dt.date(1970, 1, 1) + dt.timedelta(days=n - 4)),
}
NUMBER = st.integers(0, 7)
BOUND = st.none() | st.tuples(NUMBER, NUMBER).map(sorted)


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, ...]], list[tuple[Any, ...]]]:
    """Return the types of key columns, keys in their order, and row groups with their bounds."""
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    keys = draw(st.sets(st.tuples(*[NUMBER] * len(kinds)), min_size=1, max_size=40))
    groups = draw(st.lists(st.tuples(*[BOUND] * len(kinds)), max_size=12))
    return kinds, sorted(keys), groups


@settings(max_examples=300)
@given(searches())
@example((["long", "long"], [(0, 7), (1, 7), (2, 0)], [((0, 2), (0, 0))]))
def test_the_search_finds_what_a_plain_scan_finds(
    search: tuple[list[str], list[tuple[int, ...]], list[tuple[Any, ...]]],
) -> None:
    kinds, keys, groups = search
    columns: dict[str, pa.Array] = {"group": pa.array(range(len(groups)), pa.int64())}
    for at, kind in enumerate(kinds):
        for name, end in ((f"low_k{at}", 0), (f"high_k{at}", 1)):
            ends = [None if group[at] is None else group[at][end] for group in groups]
            columns[name] = values(kind, ends)
    table = pa.table(
        {f"k{at}": values(kind, [k[at] for k in keys]) for at, kind in enumerate(kinds)}
    )

    found = may_hold(pa.table(columns), table)

    assert sorted(found.to_pylist()) == [
        number for number, group in enumerate(groups) if any(is_within(key, group) for key in keys)
    ]


def values(kind: str, numbers: Sequence[int | None]) -> pa.Array:
    data_type, of = TYPES[kind]
    return pa.array([None if each is None else of(each) for each in numbers], data_type)


def is_within(key: tuple[int, ...], group: tuple[Any, ...]) -> bool:
    return all(
        bound is None or bound[0] <= each <= bound[1]
        for each, bound in zip(key, group, strict=True)
    )


@pytest.mark.parametrize("kind", TYPES)
def test_a_look_tells_the_least_and_the_greatest_key_of_each_row_group(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "rows.parquet"
    keys = values(kind, [3, 1, 2, 7, None, 5, None, None])
    pq.write_table(pa.table({"id": keys}), path, row_group_size=3)
    dataset_files = DatasetFiles(tmp_path.as_uri(), "", Lake(tmp_path).job.writing)
    target = pa.schema([("id", keys.type)])

    source, bounds = BoundsReader(dataset_files, KeyReader(MergeSpec(("id",)), target), target)(
        str(path)
    )

    assert source.schema == target
    assert bounds is not None
    assert bounds["group"].to_pylist() == [0, 1, 2]
    assert bounds["low_k0"].combine_chunks() == values(kind, [1, 5, None])
    assert bounds["high_k0"].combine_chunks() == values(kind, [3, 7, None])


def test_a_live_file_without_changed_keys_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Lake(tmp_path)
    tables = [pa.table({"id": range(n, n + 10), "at": [0] * 10}) for n in range(0, 100, 10)]
    there.run(*(there.stage_unit(at, table) for at, table in enumerate(tables)))
    change = there.stage_unit(0, pa.table({"id": [55], "at": [1]}))
    opened: Counter[str] = Counter()
    open_input = LocalFilesystem.open_input

    def counting(self: LocalFilesystem, path: str) -> BinaryIO:
        opened[path] += 1
        return open_input(self, path)

    monkeypatch.setattr(LocalFilesystem, "open_input", counting)
    shaped = there.reshaped(change)

    (replaced,) = shaped.replaced
    others = {FILES.path_of(file.uri) for file in there.live} - {FILES.path_of(replaced.uri)}
    assert {opened[path] for path in others} == {1}
