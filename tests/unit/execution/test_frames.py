"""Rows that Spark reads: whole or an error, and never rounded without a word."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from dil.errors import DilError, SourceContractError, TransientSourceError
from dil.execution.frames import unmarked
from dil.execution.jdbc import refuse_lossy
from dil.execution.jvm_errors import refusal


def batch(*values: int, end: bool = False) -> pa.RecordBatch:
    """Return a batch as Spark gives it; the last row is the mark where ``end``."""
    numbers = [*values, None] if end else [*values]
    marks = [*(False for _ in values), True] if end else [False] * len(values)
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(marks, pa.bool_())], names=["c0", "is_end"]
    )


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict]:
    return [row for each in unmarked(iter(batches), ("a.b",)) for row in each.to_pylist()]


def test_the_mark_at_the_end_is_no_row() -> None:
    assert rows([batch(1, 2), batch(3, end=True)]) == [{"a.b": 1}, {"a.b": 2}, {"a.b": 3}]
    assert rows([batch(1), batch(end=True)]) == [{"a.b": 1}]


def test_without_rows_the_columns_are_known() -> None:
    (found,) = unmarked(iter([batch(end=True)]), ("a.b",))
    assert found.schema == pa.schema([("a.b", pa.int64())])


@pytest.mark.parametrize("batches", [[], [batch(1, 2)], [batch(1), batch()]])
def test_rows_without_a_mark_broke_off(batches: list[pa.RecordBatch]) -> None:
    with pytest.raises(TransientSourceError, match="broke off"):
        rows(batches)


def test_a_stream_that_cannot_be_read_broke_off() -> None:
    with pytest.raises(TransientSourceError, match="broke off"):
        rows(pa.ipc.open_stream(stream) for stream in [b""])  # type: ignore[misc]


def test_nothing_may_come_behind_the_mark() -> None:
    with pytest.raises(TransientSourceError, match="behind the last one"):
        rows([batch(1, end=True), batch(2)])


def field(kind: object, **metadata: object) -> dict[str, object]:
    return {"name": "x", "type": kind, "nullable": True, "metadata": metadata}


@pytest.mark.parametrize(
    "known",
    [
        field("decimal(20,5)", scale=5),
        field("decimal(20,0)", scale=0),  # an unsigned number
        field("decimal(38,18)", scale=18),
        field({"type": "array", "elementType": "decimal(12,3)", "containsNull": True}, scale=3),
        field("timestamp_ntz", scale=6),
        field("timestamp"),
        field("float", scale=8),
        field({"type": "struct", "fields": []}),
    ],
)
def test_columns_that_spark_keeps_are_read(known: dict[str, object]) -> None:
    refuse_lossy([known])


@pytest.mark.parametrize(
    ("lossy", "what"),
    [
        (field("decimal(38,18)", scale=0), "does not keep the scale"),  # PostgreSQL's numeric
        (field("decimal(38,10)", scale=-127), "does not keep the scale"),  # Oracle's NUMBER
        (field("decimal(38,8)", scale=20), "does not keep the scale"),  # numeric(50, 20)
        (
            field(
                {"type": "array", "elementType": "decimal(38,18)", "containsNull": True}, scale=0
            ),
            "does not keep the scale",
        ),
        (field("timestamp_ntz", scale=6, logical_time_type=True), "to milliseconds"),
        (field("timestamp", scale=9), "to microseconds"),
    ],
)
def test_columns_that_spark_rounds_are_refused(lossy: dict[str, object], what: str) -> None:
    with pytest.raises(SourceContractError, match=f'column "x": .*{what}') as caught:
        refuse_lossy([lossy])
    assert "CAST(x AS" in caught.value.fix


@pytest.mark.parametrize(
    ("state", "reason", "code"),
    [
        ("28P01", "password authentication failed", "DIL-SRC-AUTH"),
        ("08006", "I/O error", "DIL-SRC-TRANSIENT"),
        ("40001", "deadlock", "DIL-SRC-TRANSIENT"),
        ("57P01", "terminating connection", "DIL-SRC-TRANSIENT"),
        ("57014", "canceling statement due to timeout", "DIL-SRC-TRANSIENT"),
        ("42P01", "relation does not exist", "DIL-SRC"),
        ("", "something else", "DIL-SRC"),
        ("08001", "No suitable driver", "DIL-CONFIG"),
    ],
)
def test_a_refusal_tells_what_to_do_by_its_state(state: str, reason: str, code: str) -> None:
    error: DilError = refusal(state, f"{reason}\n  at x", "jdbc:db2://host/x")
    assert error.code == code
    assert code == "DIL-CONFIG" or f"{reason} at x" in error.message
