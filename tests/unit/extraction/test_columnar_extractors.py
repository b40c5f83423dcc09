"""Parquet and ORC files as rows (rule F19)."""

import io
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from dil.errors import SourceContractError, WriteError
from dil.extraction.columnar.orc_extractor import OrcExtractor
from dil.extraction.columnar.parquet_extractor import ParquetExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.model.path import MISSING
from dil.model.schema import ArrayType, Column, MapType, Primitive, RecordType
from dil.model.settings import SchemaCleansing
from dil.spi.connector import Response

pytestmark = pytest.mark.slow

REF = ClassRef("m", "c")
FORMATS = {"parquet": (ParquetExtractor, pq.write_table), "orc": (OrcExtractor, orc.write_table)}

UNPACKED = {"parquet": "none", "orc": "uncompressed"}


@pytest.fixture(params=sorted(FORMATS))
def kind(request):
    return request.param


def extractor(kind, *columns, **more):
    return FORMATS[kind][0](ExtractionSpec(REF, output_schema=columns or None, **more))


def file_of(kind, columns, **more):
    stream = io.BytesIO()
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    FORMATS[kind][1](table, stream, **more)
    return stream.getvalue()


class Stream(io.RawIOBase):
    """A body that cannot be sought, as those of the net."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def read(self, size=-1):
        return self.data.read(min(size, 100_000) if size >= 0 else 100_000)


def response(body):
    return Response(Stream(body), location="/in/x")


def rows_of(page):
    return [
        row for batch in page.batches for row in batch.to_pylist(maps_as_pydicts="strict")
    ]  # fmt: skip


def read(kind, columns, *given, **more):
    return rows_of(extractor(kind, *given, **more).extract(response(file_of(kind, columns))))


def column(name, kind="string"):
    return Column(name, Primitive(kind) if isinstance(kind, str) else kind)


@pytest.mark.parametrize(
    ("values", "arrow"),
    [
        ([True, None], pa.bool_()),
        ([-5, None], pa.int32()),
        ([2**63 - 1], pa.int64()),
        ([1.5], pa.float32()),
        ([0.1, None], pa.float64()),
        (["é", "", None], pa.string()),
        ([b"\0\xff"], pa.binary()),
        ([Decimal("12345678901234567890123456789012345.678")], pa.decimal128(38, 3)),
        ([date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)], pa.date32()),
        ([[1, None], None, []], pa.list_(pa.int64())),
        ([{"k": 1}, None, {}], pa.map_(pa.string(), pa.int32())),
        ([{"x": 1, "y": None}, None], pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ],
)
def test_values_and_types_come_as_they_are(kind, values, arrow):
    items = [
        list(v.items()) if isinstance(v, dict) and pa.types.is_map(arrow) else v for v in values
    ]
    reader = extractor(kind)
    body = file_of(kind, {"a": pa.array(items, arrow)})
    (batch,) = reader.extract(response(body)).batches
    assert [row["a"] for row in batch.to_pylist(maps_as_pydicts="strict")] == values
    assert batch.schema == pa.schema([("a", arrow)])


def test_microseconds_of_all_years_are_exact_in_parquet():
    moments = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)]
    table = {"a": pa.array(moments, pa.timestamp("us", tz="UTC"))}
    assert [row["a"] for row in read("parquet", table)] == moments


def test_years_that_the_orc_reader_cannot_hold_are_an_error_and_no_other_year():
    table = {"a": pa.array([datetime(9999, 12, 31, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))}
    with pytest.raises(SourceContractError, match="timestamps outside of the years 1678 to 2261"):
        read("orc", {**table, "b": [1]})
    assert read("orc", {**table, "b": [1]}, column("b", "long")) == [{"b": 1}]


def test_the_old_form_of_timestamps_that_hive_and_impala_write_holds_all_years():
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]  # noqa: DTZ001
    body = file_of(
        "parquet",
        {"a": pa.array(moments, pa.timestamp("us"))},
        use_deprecated_int96_timestamps=True,
    )
    assert [row["a"] for row in rows_of(extractor("parquet").extract(response(body)))] == moments


def test_what_a_file_says_about_its_columns_besides_their_types_is_left_behind(kind):
    item = pa.field("x", pa.int64(), nullable=False, metadata={"dil.type": "timestamp"})
    schema = pa.schema([pa.field("a", pa.struct([item]), nullable=False, metadata={"k": "v"})])
    table = pa.table([pa.array([{"x": 5}], schema.field("a").type)], schema=schema)
    reader = extractor(kind)
    (batch,) = reader.extract(response(file_of(kind, table))).batches
    assert batch.to_pylist() == [{"a": {"x": 5}}]
    found = batch.schema.field("a")
    assert found.metadata is None
    assert found.nullable
    assert found.type.field(0).metadata is None
    assert found.type.field(0).nullable


# ms.output.schema


def test_a_given_schema_makes_exactly_its_columns_and_missing_ones_are_null(kind):
    rows = read(kind, {"a": [1, 2], "b": ["x", None]}, column("c", "long"), column("b"))
    assert rows == [{"c": None, "b": "x"}, {"c": None, "b": None}]


def test_a_given_schema_of_which_the_file_has_no_column_keeps_the_rows(kind):
    reader = extractor(kind, column("c"))
    page = reader.extract(response(file_of(kind, {"a": list(range(70_000))})))
    rows = rows_of(page)
    assert (len(rows), page.rows, rows[-1]) == (70_000, 70_000, {"c": None})


def test_columns_that_are_not_wanted_are_not_read(kind):
    class Watched(io.BytesIO):
        taken = 0

        def read(self, size=-1):
            data = super().read(size)
            Watched.taken += len(data)
            return data

    chance = random.Random(1)
    long = [chance.randbytes(200) for _ in range(50_000)]
    body = file_of(kind, {"a": list(range(50_000)), "b": long})
    reader = extractor(kind, column("a", "long"))
    opened = reader._files._format.open(Watched(body), len(body))
    assert sum(batch.num_rows for batch in opened.batches(("a",))) == 50_000
    assert Watched.taken < len(body) // 4


def test_a_given_schema_picks_members_at_all_depths(kind):
    inner = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    table = pa.table(
        {
            "a": pa.array([{"x": 1, "y": 2}, None, {"x": None, "y": 3}], inner),
            "m": pa.array([[("k", {"x": 3, "y": 4})], None, []], pa.map_(pa.string(), inner)),
            "l": pa.array([[None, {"x": 5, "y": 6}], [], None], pa.list_(inner)),
        }
    )
    shape = RecordType((column("y", "int"), column("z")), "inner")
    given = (column("a", shape), column("m", MapType(shape)), column("l", ArrayType(shape)))
    assert read(kind, table, *given) == [
        {
            "a": {"y": 2, "z": None},
            "m": {"k": {"y": 4, "z": None}},
            "l": [None, {"y": 6, "z": None}],
        },
        {"a": None, "m": None, "l": []},
        {"a": {"y": 3, "z": None}, "m": {}, "l": None},
    ]


def test_members_are_picked_beyond_the_first_batch(kind):
    values = [None if n % 7 == 0 else [{"x": n, "y": -n}] * (n % 3) for n in range(70_000)]
    inner = pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    given = column("a", ArrayType(RecordType((column("y", "long"),), "inner")))
    rows = read(kind, {"a": pa.array(values, inner)}, given)
    assert [row["a"] for row in rows] == [
        None if value is None else [{"y": item["y"]} for item in value] for value in values
    ]


def test_a_nested_column_for_a_plain_value_fails(kind):
    with pytest.raises(SourceContractError, match='column "a" is declared as nested'):
        read(kind, {"a": [1]}, column("a", MapType(Primitive("string"))))


# ms.data.field


def test_the_data_field_gives_one_column_named_by_its_last_segment(kind):
    table = {"data": [{"items": [1, 2], "n": 1}], "other": [5]}
    assert read(kind, table, data_field="data.items") == [{"items": [1, 2]}]
    given = column("items", ArrayType(Primitive("long")))
    assert read(kind, table, given, data_field="data.items") == [{"items": [1, 2]}]
    assert read(kind, table, column("x"), data_field="data.items") == [{"x": None}]


def test_a_value_that_is_missing_fails_and_null_is_a_value(kind):
    inner = pa.struct([("x", pa.int32())])
    there = {"data": pa.array([{"x": None}], inner)}
    assert read(kind, there, data_field="data.x") == [{"x": None}]
    missing = {"data": pa.array([None], inner)}
    for table, path in ((missing, "data.x"), (there, "data.y"), (there, "data.x.z")):
        with pytest.raises(SourceContractError, match=f"/in/x, page 1: .*{path}"):
            read(kind, table, data_field=path)


# Names

CLEANSING = SchemaCleansing()


def test_names_are_cleansed_at_all_depths(kind):
    inner = pa.list_(pa.struct([("d@", pa.string())]))
    values = pa.array(
        [{"$c": 1, "l": [{"d@": None}]}, None], pa.struct([("$c", pa.int64()), ("l", inner)])
    )
    table = {"a b": values}
    rows = read(kind, table, cleansing=CLEANSING)
    assert rows == [{"a_b": {"_c": 1, "l": [{"d_": None}]}}, {"a_b": None}]
    assert read(kind, table, column("a_b", RecordType((column("_c", "long"),), "r")),
                cleansing=CLEANSING) == [{"a_b": {"_c": 1}}, {"a_b": None}]  # fmt: skip
    assert list(read(kind, table)[0]) == ["a b"]


def test_names_that_become_equal_fail(kind):
    with pytest.raises(SourceContractError, match='both become "a_b"'):
        read(kind, {"a b": [1], "a$b": [2]}, cleansing=CLEANSING)


def test_a_name_with_a_dot_is_no_path(kind):
    table = {"a.b": [1], "a": [{"b": 2}]}
    assert read(kind, table) == [{"a.b": 1, "a": {"b": 2}}]
    assert read(kind, table, column("a.b", "long")) == [{"a.b": 1}]
    table = {"a.b": [1], "a": [{"b": 2}], "c.d e": [3], "c": [{"d_e": 4}]}
    assert read(kind, table, cleansing=CLEANSING) == [
        {"a.b": 1, "a": {"b": 2}, "c.d_e": 3, "c": {"d_e": 4}}
    ]


def test_two_columns_of_one_name_fail():
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SourceContractError, match='more than one column "a"'):
        read("parquet", table)


# Bodies


def test_files_of_different_schemas_follow_one_another(kind):
    reader = extractor(kind)
    first = file_of(kind, {"a": pa.array([1], pa.int32())})
    second = file_of(kind, {"b": ["x"], "a": pa.array([2**40], pa.int64())})
    assert rows_of(reader.extract(response(first))) == [{"a": 1}]
    (batch,) = reader.extract(response(second)).batches
    assert batch.to_pylist() == [{"b": "x", "a": 2**40}]
    assert batch.schema.field("a").type == pa.int64()


def test_a_file_without_rows_and_an_answer_without_body_give_none(kind):
    page = extractor(kind).extract(response(file_of(kind, {"a": pa.array([], pa.int64())})))
    assert (rows_of(page), page.rows) == ([], 0)
    assert rows_of(extractor(kind).extract(Response(body=None))) == []


def test_a_file_of_no_bytes_is_an_orc_file_without_rows_and_no_parquet_file():
    assert rows_of(extractor("orc").extract(response(b""))) == []
    with pytest.raises(SourceContractError, match="no Parquet file; it is empty"):
        rows_of(extractor("parquet").extract(response(b"")))


@pytest.mark.parametrize("body", [b"id,name\n1,Zoe\n", b"<html>no</html>"])
def test_a_body_that_is_no_such_file_fails_with_its_place_and_shows_no_value(kind, body):
    with pytest.raises(
        SourceContractError, match=r"/in/x, page 1: the body is no (Parquet|ORC) file"
    ) as told:
        rows_of(extractor(kind).extract(response(body)))
    assert "Zoe" not in str(told.value)


ROWS = [{"a": number, "b": f"text {number}"} for number in range(2_000)]
TABLE = pa.Table.from_pylist(ROWS)


def test_a_file_that_is_cut_off_anywhere_fails(kind):
    whole = file_of(kind, TABLE)
    for end in range(1, len(whole), max(1, len(whole) // 97)):
        with pytest.raises(SourceContractError, match="the body is no"):
            rows_of(extractor(kind).extract(response(whole[:end])))


@pytest.mark.parametrize("indexes", [False, True])
@pytest.mark.parametrize(("first", "second"), [(2000, 2000), (2000, 1), (0, 2000), (2000, 0)])
def test_two_files_in_one_fail(kind, indexes, first, second):
    more = {"write_page_index": True} if indexes and kind == "parquet" else {}
    files = [file_of(kind, TABLE.slice(0, rows), **more) for rows in (first, second)]
    assert [len(rows_of(extractor(kind).extract(response(file)))) for file in files] == [
        first, second,
    ]  # fmt: skip
    with pytest.raises(SourceContractError, match=r"another (Parquet|ORC) file is in front"):
        rows_of(extractor(kind).extract(response(b"".join(files))))


@pytest.mark.parametrize("wanted", [[], [column("a", "long")]])
def test_a_shorter_file_in_front_of_a_longer_one_fails(kind, wanted):
    # Its pages are where the footer of the longer one says, and hold as many values.
    short = pa.table({"a": [1] * 2000, "b": ["x"] * 2000})
    files = [file_of(kind, table) for table in (short, TABLE)]
    assert len(files[1]) > 2 * len(files[0])
    reader = extractor(kind, *wanted)
    with pytest.raises(SourceContractError, match=r"another (Parquet|ORC) file is in front"):
        rows_of(reader.extract(response(b"".join(files))))


def test_values_that_look_like_the_end_of_a_parquet_file_are_values():
    table = pa.table({"a": ["PAR1PAR1"] * 2000})
    body = file_of("parquet", table, use_dictionary=False, compression="none",
                   data_page_size=100, write_page_index=True)  # fmt: skip
    assert rows_of(extractor("parquet").extract(response(body))) == table.to_pylist()


def test_a_damaged_page_is_found_by_its_checksum():
    whole = bytearray(file_of("parquet", TABLE, write_page_checksum=True, compression="none"))
    place = whole.index(b"text 1000")
    whole[place : place + 4] = b"tExt"
    with pytest.raises(SourceContractError, match="no whole Parquet file"):
        rows_of(extractor("parquet").extract(response(bytes(whole))))


def test_of_a_long_body_only_a_part_is_in_memory_whatever_its_row_groups(kind):
    chance = random.Random(1)
    count = 600_000
    texts = [chance.randbytes(100).hex() for _ in range(count)]
    data = file_of(kind, {"n": list(range(count)), "a": texts}, compression=UNPACKED[kind])
    del texts
    body, before = Stream(data), pa.total_allocated_bytes()
    page = extractor(kind).extract(Response(body))
    sizes, total, most = [], 0, 0
    for batch in page.batches:
        sizes.append(batch.num_rows)
        total += sum(batch.column("n").to_pylist())
        most = max(most, pa.total_allocated_bytes() - before)
    assert max(sizes) <= 65_536
    assert (sum(sizes), page.rows, total) == (count, count, count * (count - 1) // 2)
    # A reader that is ahead of its consumer holds a few batches more, not a part of the file.
    assert most < len(data) // 2
    assert body.closed


def test_batches_of_long_rows_are_short(kind):
    texts = [f"{number}" * 100_000 for number in range(1_000, 1_250)]
    page = extractor(kind).extract(
        response(file_of(kind, {"a": texts}, compression=UNPACKED[kind]))
    )
    sizes = [batch.nbytes for batch in page.batches]
    assert page.rows == 250
    assert max(sizes) < 64 * 1024 * 1024


def test_a_full_disk_is_told_with_the_folder(kind, monkeypatch):
    def full(**kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    body = Stream(b"PAR1" + bytes(17 * 1024 * 1024))
    with pytest.raises(WriteError, match="No space left on device"):
        rows_of(extractor(kind).extract(Response(body)))
    assert body.closed


def test_nothing_can_be_looked_up_in_a_file(kind):
    assert extractor(kind).extract(response(file_of(kind, TABLE))).lookup("a") is MISSING
