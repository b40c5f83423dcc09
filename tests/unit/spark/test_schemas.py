"""Types of Arrow as those of Spark, and rows in the schema that Spark was given."""

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType, VariantType

from dil.errors import ConfigError, ConversionError, SourceContractError
from dil.execution.spark_types import arrow_schema, spark_schema
from dil.spark.work_units import Fit

KINDS = [
    (pa.bool_(), "boolean"),
    (pa.int32(), "int"),
    (pa.int64(), "bigint"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.decimal128(38, 9), "decimal(38,9)"),
    (pa.decimal256(50, 2), "string"),
    (pa.string(), "string"),
    (pa.large_string(), "string"),
    (pa.dictionary(pa.int32(), pa.string()), "string"),
    (pa.binary(4), "binary"),
    (pa.date32(), "date"),
    (pa.time64("us"), "string"),
    (pa.timestamp("us", "UTC"), "timestamp"),
    (pa.timestamp("ms", "Europe/Paris"), "timestamp"),
    (pa.timestamp("us"), "timestamp_ntz"),
    (pa.null(), "string"),
    (pa.list_(pa.int64()), "array<bigint>"),
    (pa.map_(pa.string(), pa.float64()), "map<string,double>"),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        "struct<a:bigint,b:array<string>>",
    ),
]


@pytest.mark.parametrize(("kind", "word"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_a_type_of_arrow_has_one_of_spark(kind: pa.DataType, word: str) -> None:
    assert spark_schema(pa.schema([("x", kind)]))["x"].dataType.simpleString() == word


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS], ids=str)
def test_rows_come_in_the_schema_that_spark_itself_wants(kind: pa.DataType) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = spark_schema(pa.schema([("x", kind)]))

    assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_type_that_is_not_read_is_named() -> None:
    with pytest.raises(ConfigError, match="variant for x"):
        arrow_schema(StructType([StructField("x", VariantType())]))


def rows(**columns: pa.Array) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict(columns)]


def test_rows_are_fitted_by_name_every_value_as_it_was() -> None:
    target = pa.schema([("b", pa.string()), ("a", pa.float64()), ("c", pa.int32())])
    fit = Fit(target, is_inferred=False)

    (found,) = fit.fitted(rows(a=pa.array([1, 2]), b=pa.array([3, None]), d=pa.array([1, 1])))

    assert found.schema == target
    assert found.to_pylist() == [{"b": "3", "a": 1.0, "c": None}, {"b": None, "a": 2.0, "c": None}]


def test_a_value_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ConversionError):
        list(Fit(pa.schema([("a", pa.int64())]), is_inferred=True).fitted(rows(a=pa.array([1.5]))))


@pytest.mark.parametrize(
    "late", [pa.array([{"x": 1, "y": 2}]), pa.array([[{"x": 1, "y": 2}]])], ids=["member", "item"]
)
def test_no_inferred_column_loses_what_comes_later_in_it(late: pa.Array) -> None:
    inner = pa.struct([("x", pa.int64())])
    kind = inner if pa.types.is_struct(late.type) else pa.list_(inner)
    target = pa.schema([("a", kind)])

    with pytest.raises(SourceContractError, match="y"):
        list(Fit(target, is_inferred=True).fitted(rows(a=late)))
    assert len(list(Fit(target, is_inferred=False).fitted(rows(a=late)))) == 1
