"""Merging files by key gives what a dict gives, whatever the types, the files and the formats."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dil.model.destination import MergeSpec
from dil.model.job import OutputFormat
from tests.merging import Lake

MANY = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Of many small files each is made durable, which costs nothing in memory.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
HOUR_MS = 3_600_000

# How a small number becomes a key of a type, and a delta value of a type.
TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int32(), lambda n: n),
    "long": (pa.int64(), lambda n: n * 10**15),
    "text": (pa.string(), lambda n: f"{'é' * (n % 3)}{n}"),
    "decimal": (pa.decimal128(20, 2), lambda n: Decimal(n) / 100),
    "instant": (pa.timestamp("us", tz="UTC"), lambda n: NOON + dt.timedelta(seconds=n)),
    "date": (pa.date32(), lambda n: dt.date(2024, 1, 1) + dt.timedelta(days=n)),
    "bytes": (pa.binary(), lambda n: n.to_bytes(2, "big")),
    "bool": (pa.bool_(), lambda n: n % 2 == 0),
}


@dataclass(frozen=True)
class Change:
    key: int
    part: int
    at: int | None
    value: int
    op: str


CHANGES = st.builds(
    Change,
    key=st.integers(0, 12),
    part=st.integers(0, 1),
    at=st.one_of(st.none(), st.integers(0, 5)),
    value=st.integers(0, 9),
    op=st.sampled_from(["i", "u", "u", "D"]),
)
# A run: its work units, each of some files of rows; whether it read everything; its value's type.
RUNS = st.lists(
    st.tuples(
        st.lists(st.lists(st.lists(CHANGES, min_size=1, max_size=8), max_size=2), max_size=2),
        st.booleans(),
        st.sampled_from(["int", "long", "text"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@dataclass
class Model:
    """The dataset as a dict of rows."""

    key: Callable[[int], Any]
    at: Callable[[int], Any]
    is_soft: bool
    detects_missing: bool
    rows: dict[tuple[Any, int], dict[str, Any]] = field(default_factory=dict)

    def run(
        self, changes: list[Change], now: dt.datetime, *, has_all_rows: bool, extra: bool
    ) -> None:
        newest: dict[tuple[Any, int], Change] = {}
        for change in changes:
            key = (self.key(change.key), change.part)
            if key not in newest or self._at(change) >= self._at(newest[key]):
                newest[key] = change
        for key, change in newest.items():
            live = self.rows.get(key)
            if live is not None and _order(live["at"]) > self._at(change):
                continue
            if change.op == "D":
                self._delete(key, now)
            else:
                self.rows[key] = self._row(key, change, extra=extra)
        if self.detects_missing and has_all_rows:
            for key in set(self.rows) - set(newest):
                self._delete(key, now)

    def _at(self, change: Change) -> tuple[Any, ...]:
        return _order(None if change.at is None else self.at(change.at))

    def _row(self, key: tuple[Any, int], change: Change, *, extra: bool) -> dict[str, Any]:
        at = None if change.at is None else self.at(change.at)
        row = {"id": key[0], "part": key[1], "at": at, "value": change.value, "what": change.op}
        return {**row, "extra": change.value if extra else None, "_dil_deleted_at": None}

    def _delete(self, key: tuple[Any, int], now: dt.datetime) -> None:
        if not self.is_soft:
            self.rows.pop(key, None)
        elif key in self.rows and self.rows[key]["_dil_deleted_at"] is None:
            self.rows[key]["_dil_deleted_at"] = now


def _order(at: Any) -> tuple[Any, ...]:
    return () if at is None else (at,)


def _table(changes: list[Change], model: Model, kinds: dict[str, str], *, extra: bool) -> pa.Table:
    rows = [model._row((model.key(each.key), each.part), each, extra=extra) for each in changes]

    def of(column: str) -> pa.DataType:
        return TYPES[kinds[column]][0]

    columns = {
        "id": pa.array([row["id"] for row in rows], of("key")),
        "part": pa.array([row["part"] for row in rows], pa.int64()),
        "at": pa.array([row["at"] for row in rows], of("at")),
        "value": pa.array([_value(row["value"], kinds["value"]) for row in rows], of("value")),
        "what": pa.array([row["what"] for row in rows], pa.string()),
    }
    if extra:
        columns["extra"] = pa.array([row["extra"] for row in rows], pa.int64())
    return pa.table(columns)


def _value(number: int, kind: str) -> Any:
    return str(number) if kind == "text" else number


def _play(lake: Lake, model: Model, runs: list[Any], kinds: dict[str, str]) -> None:
    """Play runs; after each one the dataset is the model, and what its changelog adds up to."""
    seen: set[str] = set()
    added_up: Counter[str] = Counter()
    for number, (units, has_all_rows, kind, extra) in enumerate(runs):
        chosen = {**kinds, "value": kind}
        finished = [
            lake.stage_unit(at, *(_table(rows, model, chosen, extra=extra) for rows in tables))
            for at, tables in enumerate(units)
        ]
        now = NOON + dt.timedelta(hours=number)
        lake.run(*finished, now=int(now.timestamp() * 1000), has_all_rows=has_all_rows)
        changes = [each for tables in units for rows in tables for each in rows]
        model.run(changes, now, has_all_rows=has_all_rows, extra=extra)
        if changes:
            seen.add(kind)
        assert _found(lake) == _expected(model, is_text="text" in seen), f"run {number}"
        _add_up(added_up, [row for each in lake.changes for row in each])
        lake.changes = [[]]
        assert added_up == Counter(map(_text, lake.table().to_pylist())), f"run {number}"


def _add_up(rows: Counter[str], changes: list[dict[str, Any]]) -> None:
    """Apply changes to rows; nothing goes that is not there, and no change says nothing."""
    before = None
    for change in changes:
        op, text = change["op"], _text(change)
        assert (before is not None) == (op == 3), "op 2 is followed by op 3"
        assert text != before, "a row was corrected to itself"
        before = text if op == 2 else None
        rows[text] += 1 if op in (0, 3) else -1
        assert rows[text] >= 0, f"{text} went, and was not there"
        rows += Counter()
    assert before is None


def _text(row: dict[str, Any]) -> str:
    """Return a row as text that is the same whatever its columns were widened to."""
    names = ("id", "part", "at", "value", "what", "extra", "_dil_deleted_at")
    return repr([str(row[name]) if name == "value" else row.get(name) for name in names])


def _found(lake: Lake) -> list[tuple[Any, ...]]:
    names = ("id", "part", "at", "value", "what", "extra", "_dil_deleted_at")
    rows = lake.table().to_pylist()
    return sorted((tuple(row.get(name) for name in names) for row in rows), key=repr)


def _expected(model: Model, *, is_text: bool) -> list[tuple[Any, ...]]:
    rows = [{**row} for row in model.rows.values()]
    for row in rows:
        row["value"] = str(row["value"]) if is_text else row["value"]
    return sorted((tuple(row.values()) for row in rows), key=repr)


PARQUET = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["int", "long", "text", "decimal", "instant", "date", "bytes"]),
        "at": st.sampled_from(sorted(TYPES)),
        "bucket_rows": st.sampled_from([2, 5, 1_000_000]),
        "row_group_rows": st.sampled_from([2, 65_536]),
    }
)


@MANY
@given(runs=RUNS, is_soft=st.booleans(), detects_missing=st.booleans(), how=PARQUET)
def test_runs_merged_into_parquet_files_give_what_a_dict_gives(runs, is_soft, detects_missing, how):
    spec = _spec(is_soft=is_soft, detects_missing=detects_missing)
    kinds = {name: how[name] for name in ("key", "at")}
    sizes = {name: how[name] for name in ("bucket_rows", "row_group_rows")}
    model = Model(TYPES[how["key"]][1], TYPES[how["at"]][1], is_soft, detects_missing)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        lake = Lake(Path(folder), spec, target_bytes=1, changelog=True, **sizes)
        _play(lake, model, runs, kinds)


@pytest.mark.parametrize("form", [each for each in OutputFormat if each != "parquet"])
@settings(MANY, max_examples=15)
@given(runs=RUNS, is_soft=st.booleans(), detects_missing=st.booleans())
def test_the_other_formats_give_the_same(form, runs, is_soft, detects_missing):
    spec = _spec(is_soft=is_soft, detects_missing=detects_missing)
    model = Model(TYPES["text"][1], TYPES["instant"][1], is_soft, detects_missing)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        lake = Lake(Path(folder), spec, form, changelog=True)
        _play(lake, model, runs, {"key": "text", "at": "instant"})


def _spec(*, is_soft: bool, detects_missing: bool) -> MergeSpec:
    return MergeSpec(
        keys=("id", "part"),
        delta_fields=("at",),
        op_field="what",
        delete_words=("d",),
        is_soft=is_soft,
        deletes_missing=detects_missing,
        max_deleted_percent=100,
    )
