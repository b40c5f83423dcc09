"""Rows of secondary input: formats, fields, filters, types (docs/secondary-input.md)."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import json
import uuid
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc
from pyarrow import parquet as pq

from dil.errors import SourceContractError, SourceError
from dil.extraction.secondary.entry import SecondaryAccess, SecondaryEntry
from dil.model.json import compact
from dil.model.secondary import SecondaryInput
from dil.model.secret import Secret
from dil.storage import LocalFilesystem

ROWS = [
    {"id": 1, "name": "a", "status": "active"},
    {"id": 2**53 + 1, "name": None, "status": "closed"},
    {"id": 3, "name": "ä\nb", "status": None},
]
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "status", "type": ["null", "string"]},
    ],
}


def to_avro(path: Path, rows=ROWS, schema=AVRO) -> None:
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, rows)


def to_csv(path: Path, rows=ROWS) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def json_text(rows=ROWS) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


WRITERS = {
    "part.avro": to_avro,
    "part.parquet": lambda path: pq.write_table(pa.Table.from_pylist(ROWS), path),
    "part.orc": lambda path: orc.write_table(pa.Table.from_pylist(ROWS), path),
    "part.json": lambda path: path.write_bytes(json_text()),
    "part.ndjson": lambda path: path.write_bytes(b"\xef\xbb\xbf\n" + json_text()),
    "PART.JSONL.GZ": lambda path: path.write_bytes(gzip.compress(json_text())),
    "part-00000": to_avro,
}


def entry(path: Path | str, *fields: str, parse_json: bool = False, **members) -> SecondaryEntry:
    source = SecondaryInput(path=str(path), fields=fields, **members)
    access = SecondaryAccess(
        lambda place: LocalFilesystem(),
        lambda files, folder: None,
        lambda text, purpose: Secret("plain"),
    )
    return SecondaryEntry(source, str(path), access, parse_json)


def read(path: Path, *fields: str, **members) -> list[str]:
    return [compact(row) for row in entry(path, *fields, **members).rows()]


@pytest.fixture(params=WRITERS)
def folder(request, tmp_path):
    WRITERS[request.param](tmp_path / request.param)
    return tmp_path


def test_fields_are_taken_in_their_order_with_their_types(folder):
    assert read(folder, "name", "id") == [
        '{"name":"a","id":1}',
        '{"name":null,"id":9007199254740993}',
        '{"name":"ä\\nb","id":3}',
    ]


def test_a_row_passes_when_every_filtered_column_matches_as_a_whole_and_is_not_null(folder):
    assert read(folder, "id", filters={"status": "active|closed"}) == [
        '{"id":1}',
        '{"id":9007199254740993}',
    ]
    assert read(folder, "id", filters={"status": "activ"}) == []
    assert read(folder, "id", filters={"status": ".*"})[-1] == '{"id":9007199254740993}'
    assert read(folder, "id", filters={"id": r"\d", "status": ".*"}) == ['{"id":1}']


def test_a_column_without_a_filter_accepts_line_breaks_and_nulls(folder):
    assert len(read(folder, "name", filters={"id": r"\d+"})) == 3


def test_without_fields_each_row_that_passes_is_an_empty_object(folder):
    assert read(folder) == ["{}", "{}", "{}"]
    assert read(folder, filters={"id": "3"}) == ["{}"]


@pytest.mark.parametrize("members", [{"fields": ["nme"]}, {"filters": {"nme": "x"}}])
def test_a_column_that_the_data_does_not_have_is_an_error_that_names_those_it_has(folder, members):
    source = SecondaryInput(path=str(folder), **members)
    with pytest.raises(SourceContractError, match='has no column "nme"; its columns are id, name'):
        list(SecondaryEntry(source, str(folder), entry(folder).access).rows())


def test_csv_cells_are_text_an_empty_one_is_null_and_quoted_emptiness_is_not(tmp_path):
    (tmp_path / "a.csv").write_text('id,name,more\n007,,"x\ny"\n8,"",z\n')
    assert read(tmp_path, "id", "name", "more") == [
        '{"id":"007","name":null,"more":"x\\ny"}',
        '{"id":"8","name":"","more":"z"}',
    ]
    assert read(tmp_path) == ["{}", "{}"]
    with pytest.raises(SourceContractError, match="its columns are id, name, more"):
        read(tmp_path, "no")


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n", "\r"])
def test_a_csv_file_that_ends_within_quotes_is_refused(tmp_path, end):
    (tmp_path / "a.csv").write_bytes(f'a,b\n1,"x\ny"\n2,"z"{end}'.encode())
    assert read(tmp_path, "b", "a") == ['{"b":"x\\ny","a":"1"}', '{"b":"z","a":"2"}']
    assert len(read(tmp_path)) == 2
    (tmp_path / "a.csv").write_bytes(f'a,b\n1,"x\ny"\n2,"z{end}'.encode())
    with pytest.raises(SourceContractError):
        read(tmp_path, "a")


def test_the_last_row_of_a_csv_file_may_cross_a_block_and_end_without_a_line_break(tmp_path):
    row = f"1,{'x' * 1000}"
    rows = (1 << 20) // len(f"{row}\n") + 1
    (tmp_path / "a.csv").write_text("\n".join(["a,b", *[row] * rows]))
    assert len(read(tmp_path, "a")) == rows


def test_packed_csv_is_read(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n1\n"))
    assert read(tmp_path, "id") == ['{"id":"1"}']


def test_a_type_that_only_a_later_block_of_a_csv_file_shows_changes_nothing(tmp_path):
    lines = ["id,pad", *(f"{number},{'x' * 1000}" for number in range(1500)), "n1,x"]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    assert read(tmp_path, "id", filters={"id": "1499|n1"}) == ['{"id":"1499"}', '{"id":"n1"}']


def test_an_empty_text_file_has_no_rows(tmp_path):
    for name in ("a.csv", "b.json", "c.csv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    assert read(tmp_path, "id") == []


def test_a_union_with_null_keeps_the_type_of_its_other_branch(tmp_path):
    fields = [{"name": "n", "type": ["null", "int"]}, {"name": "d", "type": ["null", "double"]}]
    schema = {"type": "record", "name": "r", "fields": fields}
    to_avro(tmp_path / "a.avro", [{"n": 5, "d": 5.0}, {"n": None, "d": None}], schema)
    assert read(tmp_path, "n", "d") == ['{"n":5,"d":5.0}', '{"n":null,"d":null}']


def test_every_avro_type_has_its_json_form(tmp_path):
    types = {
        "b": "boolean",
        "f": "double",
        "array": {"type": "array", "items": "long"},
        "record": {"type": "record", "name": "n", "fields": [{"name": "x", "type": "string"}]},
        "map": {"type": "map", "values": "long"},
        "enum": {"type": "enum", "name": "e", "symbols": ["A", "B"]},
        "bytes": "bytes",
        "fixed": {"type": "fixed", "name": "two", "size": 2},
        "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
        "uuid": {"type": "string", "logicalType": "uuid"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "nan": "double",
    }
    row = {
        "b": True, "f": 1.5, "array": [1, 2], "record": {"x": "y"}, "map": {"k": 1}, "enum": "B",
        "bytes": b"\xff", "fixed": b"ab", "decimal": Decimal("12345678901234567890.10"),
        "uuid": uuid.UUID(int=1), "at": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "nan": float("nan"),
    }  # fmt: skip
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    to_avro(tmp_path / "a.avro", [row], {"type": "record", "name": "r", "fields": fields})
    assert read(tmp_path, *types) == [
        '{"b":true,"f":1.5,"array":[1,2],"record":{"x":"y"},"map":"{\\"k\\":1}","enum":"B",'
        '"bytes":"/w==","fixed":"YWI=","decimal":12345678901234567890.10,'
        '"uuid":"00000000-0000-0000-0000-000000000001","at":"2020-01-02T03:04:05Z","nan":null}'
    ]


@pytest.mark.parametrize("name", ["a.parquet", "a.orc"])
def test_columns_of_arrow_files_have_the_same_forms(tmp_path, name):
    table = pa.table(
        {
            "at": pa.array([dt.datetime(2020, 1, 2, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
            "day": pa.array([dt.date(2020, 1, 2)], pa.date32()),
            "list": pa.array([[1, None]], pa.list_(pa.int64())),
            "struct": pa.array([{"x": b"\xff"}], pa.struct([("x", pa.binary())])),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "decimal": pa.array([Decimal(123456789012345678901234567890)], pa.decimal128(38)),
        }
    )
    {"a.parquet": pq, "a.orc": orc}[name].write_table(table, tmp_path / name)
    assert read(tmp_path, *table.column_names) == [
        '{"at":"2020-01-02T00:00:00Z","day":"2020-01-02","list":[1,null],"struct":{"x":"/w=="},'
        '"map":"{\\"k\\":1}","decimal":123456789012345678901234567890}'
    ]


def test_numbers_of_json_lines_stay_as_they_are_written(tmp_path):
    (tmp_path / "a.json").write_text('{"x":12345678901234567890123,"y":1.0,"z":[1e5,-0]}\n')
    assert read(tmp_path, "x", "y", "z") == ['{"x":12345678901234567890123,"y":1.0,"z":[1e5,-0]}']


def test_what_a_later_line_of_json_lacks_is_null_and_the_first_line_tells_the_columns(tmp_path):
    (tmp_path / "a.json").write_text('{"a":1,"b":2}\n\n{"a":3}\n')
    assert read(tmp_path, "a", "b") == ['{"a":1,"b":2}', '{"a":3,"b":null}']
    with pytest.raises(SourceContractError, match='no column "c"'):
        read(tmp_path, "c")


@pytest.mark.parametrize("line", ["[1]", "{", '{"a":NaN}', "s3cr3t-token", "[" * 100_000])
def test_a_line_that_is_no_object_is_told_by_its_number_and_not_shown(tmp_path, line):
    (tmp_path / "a.json").write_text('{"a":1}\n' + line + "\n")
    with pytest.raises(SourceContractError, match="has no JSON object in line 2") as caught:
        read(tmp_path, "a")
    assert "s3cr3t" not in str(caught.value)


def test_half_of_a_surrogate_pair_is_refused_in_a_wanted_column_only(tmp_path):
    inner = '{"x":"\\ud83d"}'
    row = {"a": "\U0001f600", "b": "\ud83d", "c": inner}
    (tmp_path / "a.json").write_bytes(json_text([row]))
    assert read(tmp_path, "a") == ['{"a":"\U0001f600"}']
    assert read(tmp_path, "c", parse_json=True) == [compact({"c": inner})]
    with pytest.raises(SourceContractError):
        read(tmp_path, "b")


@pytest.mark.parametrize("name", ["a.avro", "a.parquet", "a.orc", "a.csv", "a.csv.gz", "a.json.gz"])
def test_a_damaged_file_is_told_by_name_without_what_is_in_it(tmp_path, name):
    (tmp_path / name).write_bytes(b"a,b\n1,2\n3,4,s3cr3t\n")
    with pytest.raises(SourceContractError, match="is damaged") as caught:
        read(tmp_path, "a")
    assert name in caught.value.message
    assert "s3cr3t" not in str(caught.value)


def test_a_cut_avro_file_is_an_error_and_not_fewer_rows(tmp_path):
    to_avro(tmp_path / "a.avro")
    whole = (tmp_path / "a.avro").read_bytes()
    (tmp_path / "a.avro").write_bytes(whole[:-5])
    with pytest.raises(SourceContractError, match="is damaged"):
        read(tmp_path, "id")


def test_files_of_other_formats_in_a_folder_are_left_out_with_a_warning(tmp_path, caplog):
    (tmp_path / "a.json").write_bytes(json_text())
    to_avro(tmp_path / "b.avro.tmp")
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "data").write_bytes(b"")
    assert len(read(tmp_path, "id")) == 3
    assert [record.args[0].rpartition("/")[2] for record in caplog.records] == [
        "b.avro.tmp", "data", "readme.txt",
    ]  # fmt: skip


def test_a_file_of_no_known_format_that_is_named_itself_is_an_error(tmp_path):
    (tmp_path / "readme.txt").write_text("x")
    with pytest.raises(SourceContractError, match="no known format"):
        read(tmp_path / "readme.txt", "id")


class Unreadable(LocalFilesystem):
    """A store that lists its files and does not open them."""

    def open_input(self, path):
        if Path(path).is_dir():
            raise IsADirectoryError(path)
        raise PermissionError(13, "Permission denied", path)


def test_a_store_that_refuses_is_a_source_error_that_names_the_file(tmp_path):
    (tmp_path / "a.json").write_bytes(json_text())
    access = SecondaryAccess(
        lambda place: Unreadable(), lambda files, folder: None, lambda text, _: Secret(text)
    )
    for path in (tmp_path, tmp_path / "a.json"):
        refused = SecondaryEntry(SecondaryInput(path=str(path), fields=("id",)), str(path), access)
        with pytest.raises(SourceError, match=r"a\.json cannot be read: Permission denied"):
            list(refused.rows())


def test_texts_that_look_like_json_are_parsed_when_asked_for_after_filters_saw_the_text(tmp_path):
    texts = [' {"a": 1.0}', "[1]", "[no]", "{", "text"]
    (tmp_path / "a.json").write_bytes(json_text([{"t": text} for text in texts]))
    plain = [compact({"t": text}) for text in texts]
    assert read(tmp_path, "t") == plain
    assert read(tmp_path, "t", parse_json=True) == ['{"t":{"a":1.0}}', '{"t":[1]}', *plain[2:]]
    assert read(tmp_path, "t", parse_json=True, filters={"t": r"\[\d\]"}) == ['{"t":[1]}']


def test_rows_of_a_large_file_are_read_as_they_are_asked_for(tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"a":1}\n' * 10 + b"broken\n")
    rows = entry(tmp_path, "a").rows()
    assert [next(rows) for _ in range(10)] == [{"a": 1}] * 10
    rows.close()


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)


@given(st.lists(st.fixed_dictionaries({"a": names, "b": st.integers(-(2**63), 2**63 - 1)})))
def test_all_typed_formats_give_the_same_units(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("formats")
    table = pa.Table.from_pylist(rows, pa.schema([("a", pa.string()), ("b", pa.int64())]))
    fields = [{"name": "a", "type": "string"}, {"name": "b", "type": "long"}]
    pq.write_table(table, folder / "a.parquet")
    orc.write_table(table, folder / "a.orc")
    to_avro(folder / "a.avro", rows, {"type": "record", "name": "r", "fields": fields})
    (folder / "a.json").write_bytes(json_text(rows))
    expected = [compact({"a": row["a"], "b": row["b"]}) for row in rows]
    for name in ("a.parquet", "a.orc", "a.avro", "a.json"):
        assert read(folder / name, "a", "b") == expected
