from dataclasses import replace

import pyarrow as pa
import pytest

from dil.conversion.contract import KnownTypes
from dil.model.path import MISSING
from dil.model.schema import ContractMode
from dil.spi.converter import ConverterContext, PageFacts
from dil.spi.extractor import Page
from tests.unit.conversion.contracts import contracted_job

FACTS = PageFacts(Page(iter(()), lambda path: MISSING), {})


def written(known: str, column: pa.Array, *, keys: tuple[str, ...] = ()) -> pa.Array:
    job = contracted_job(ContractMode.EVOLVE)
    job = replace(job, extraction=replace(job.extraction, primary_keys=keys))
    step = KnownTypes(ConverterContext(job, run_now=0, known_schema=known))
    (batch,) = step.convert(pa.RecordBatch.from_arrays([column], ["c"]), FACTS)
    return batch.column("c")


@pytest.mark.parametrize(
    ("known", "values", "expected"),
    [
        ("c: int64", pa.array([1, None], pa.int32()), pa.array([1, None], pa.int64())),
        ("c: double", pa.array([2], pa.int64()), pa.array([2.0])),
        ("c: string", pa.array([7], pa.int32()), pa.array(["7"])),
        ("c: double", pa.array(["1.5", "-2"]), pa.array([1.5, -2.0])),
        ("c: int32", pa.array(["7", None]), pa.array([7, None], pa.int32())),
        ("c: decimal128(9, 2)", pa.array(["1.50"]), pa.array(["1.50"]).cast(pa.decimal128(9, 2))),
        ("c: struct<a: double>", pa.array([{"a": 1}]), pa.array([{"a": 1.0}])),
        ("c: list<item: int64>", pa.array([[1]], pa.list_(pa.int32())), pa.array([[1]])),
    ],
)
def test_what_the_known_type_holds_exactly_is_written_in_it(known, values, expected):
    found = written(known, values)
    assert found.type.equals(expected.type)
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("known", "values"),
    [
        ("c: int64", pa.array([1.5])),
        ("c: double", pa.array([2**53 + 1])),
        ("c: int64", pa.array(["x"])),
        ("c: int64", pa.array(["-0"])),
        ("c: double", pa.array(["1.50"])),
        ("c: double", pa.array(["2", "15E-1"])),
        ("c: double", pa.array(["12345678901234567.1"])),
        ("c: decimal128(9, 2)", pa.array(["1.5"])),
        ("c: list<item: double>", pa.array([["1.50"]])),
        ("c: struct<a: double>", pa.array([{"a": 1, "b": 2}])),
        ("d: int64", pa.array([1], pa.int32())),
        ("c: no type at all", pa.array([1], pa.int32())),
    ],
)
def test_what_does_not_fit_comes_as_it_is(known, values):
    found = written(known, values)
    assert found.equals(values)


def test_a_key_that_is_text_now_is_no_number():
    """Rows of "1" and of 1 are two until somebody says that they are one."""
    found = written("c: int64", pa.array(["1"]), keys=("c",))
    assert found.equals(pa.array(["1"]))


def test_a_key_is_written_in_a_wider_number():
    found = written("c: int64", pa.array([1], pa.int32()), keys=("c",))
    assert found.equals(pa.array([1], pa.int64()))
