"""The first rows of a source in a terminal, and the schema to paste."""

import pyarrow as pa

from dil.observe.preview_view import rows_json, rows_text, schema_text

MAP = pa.map_(pa.string(), pa.int64())


def test_maps_are_shown_as_objects_empty_or_not() -> None:
    rows = pa.table({"m": pa.array([[("a", 1)], [], None], MAP), "l": pa.array([[], [[]], None])})

    assert [row["m"] for row in rows_json(rows)] == [{"a": 1}, {}, None]
    line = next(each for each in rows_text(rows).splitlines() if each.startswith("m "))
    assert line.split()[-3:] == ['{"a":1}', "{}", "null"]


def test_columns_that_no_row_had_a_value_for_are_left_out_of_the_schema_and_named() -> None:
    texts, objects = pa.list_(pa.string()), pa.map_(pa.string(), pa.string())
    member = pa.struct([("x", pa.string()), ("y", pa.string())])
    rows = pa.table(
        {
            "id": pa.array([1, 2]),
            "note": pa.array([None, None], pa.string()),
            "tags": pa.array([[], None], texts),
            "more": pa.array([[], []], objects),
            "some": pa.array([{"x": "a", "y": None}, None], member),
            "empty": pa.array(["", None]),
            "number": pa.array([None, None], pa.float64()),
        }
    )

    schema, comment = schema_text(rows, {}).rstrip().rsplit("\n", 1)

    assert comment == "# left out, because no row shown had a value: note, tags, more, some.y"
    for kept in ("id", "some", "x", "empty", "number"):
        assert f'"columnName":"{kept}"' in schema
    for gone in ("note", "tags", "more", "y"):
        assert f'"columnName":"{gone}"' not in schema


def test_a_schema_of_columns_that_all_had_values_has_no_comment() -> None:
    rows = pa.table({"id": pa.array([1, 2]), "name": pa.array([None, "Zoe"])}).slice(1)

    assert "#" not in schema_text(rows, {})


def test_columns_whose_texts_are_read_as_times_are_declared_so_and_named() -> None:
    rows = pa.table({"id": [1], "at": ["2024-03-05T01:02:03Z"]})

    schema, comment = schema_text(rows, {"at": "timestamp"}).rstrip().rsplit("\n", 1)

    assert '"columnName":"at","isNullable":true,"dataType":{"type":"timestamp"}' in schema
    assert comment == "# their texts are ISO 8601; string keeps them as they are: at"
