"""Laws of columnar files: what a file holds comes back, and a given schema is a projection."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from dil.extraction.columnar.parquet_extractor import ParquetExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType
from dil.spi.connector import Response

LEAVES = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=5),
    "boolean": st.booleans(),
}
NAMES = ("a", "b", "c", "d")
leaves = st.sampled_from(sorted(LEAVES)).map(Primitive)


def records(inner):
    members = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)
    return members.map(lambda found: RecordType(tuple(Column(n, t) for n, t in found.items()), "r"))


types = st.recursive(
    leaves,
    lambda inner: records(inner) | inner.map(ArrayType) | inner.map(MapType),
    max_leaves=6,
)


def arrow(kind):
    match kind:
        case Primitive(word=word):
            return {"long": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}[word]
        case ArrayType(items=items):
            return pa.list_(arrow(items))
        case MapType(values=values):
            return pa.map_(pa.string(), arrow(values))
    return pa.struct([(column.name, arrow(column.type)) for column in kind.columns])


def values(kind):
    match kind:
        case Primitive(word=word):
            found = LEAVES[word]
        case ArrayType(items=items):
            found = st.lists(values(items), max_size=3)
        case MapType(values=items):
            found = st.dictionaries(st.sampled_from(NAMES), values(items), max_size=3)
        case _:
            members = {column.name: values(column.type) for column in kind.columns}
            found = st.fixed_dictionaries(members)
    return st.none() | found


def asked(kind):
    """Return what a job may declare for a type: members left out, and others that are not there."""
    match kind:
        case Primitive():
            return st.just(kind)
        case ArrayType(items=items):
            return asked(items).map(ArrayType)
        case MapType(values=items):
            return asked(items).map(MapType)
    kept = st.sets(st.sampled_from(kind.columns), min_size=1)
    return kept.flatmap(lambda columns: st.tuples(*map(_asked_member, columns))).map(
        lambda columns: RecordType((*columns, Column("absent", Primitive("string"))), "r")
    )


def _asked_member(column):
    return asked(column.type).map(lambda kind: Column(column.name, kind))


def projected(value, kind):
    """Return a Python value with exactly the members of a type."""
    if value is None:
        return None
    match kind:
        case Primitive():
            return value
        case ArrayType(items=items):
            return [projected(item, items) for item in value]
        case MapType(values=items):
            return {key: projected(item, items) for key, item in value.items()}
    return {column.name: projected(value.get(column.name), column.type) for column in kind.columns}


def as_arrow(value, kind):
    """Return a Python value as Arrow takes it: maps are pairs."""
    if value is None:
        return None
    match kind:
        case ArrayType(items=items):
            return [as_arrow(item, items) for item in value]
        case MapType(values=items):
            return [(key, as_arrow(item, items)) for key, item in value.items()]
        case RecordType(columns=columns):
            return {column.name: as_arrow(value[column.name], column.type) for column in columns}
    return value


@st.composite
def files(draw):
    kind = draw(types)
    rows = draw(st.lists(values(kind), max_size=12))
    return kind, rows, draw(asked(kind)), draw(st.integers(1, 12))


@settings(max_examples=60, deadline=None)
@given(files())
def test_a_given_schema_is_a_projection_of_every_row(made):
    kind, rows, wanted, group = made
    stream = io.BytesIO()
    array = pa.array([as_arrow(row, kind) for row in rows], arrow(kind))
    pq.write_table(pa.table({"x": array, "other": array}), stream, row_group_size=group)
    for declared, expected in ((None, rows), (wanted, [projected(row, wanted) for row in rows])):
        given_schema = None if declared is None else (Column("x", declared),)
        extractor = ParquetExtractor(ExtractionSpec(ClassRef("m", "c"), output_schema=given_schema))
        page = extractor.extract(Response(io.BytesIO(stream.getvalue())))
        found = [
            row["x"] for batch in page.batches for row in batch.to_pylist(maps_as_pydicts="strict")
        ]
        assert found == expected
        assert page.rows == len(rows)
