from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from dil.errors import ConfigError, ConversionError
from dil.model.schema import Column, Primitive, Schema
from dil.model.settings import SchemaCleansing
from dil.secrets.authenticated import Encryptor, decrypt
from tests.unit.conversion.conversion_jobs import convert, derived

pytestmark = pytest.mark.slow

PASSWORDS = ("first", "second")


def encrypted(rows: pa.RecordBatch | list[dict[str, Any]], *paths: str, **job: Any) -> Any:
    batch = pa.RecordBatch.from_pylist(rows) if isinstance(rows, list) else rows
    options = {"encrypted_fields": list(paths), "passwords": PASSWORDS, **job}
    return convert(batch, **options)


def plain(text: str | None, password: str = "first") -> str | None:
    if text is None:
        return None
    assert text.startswith("ENC(v1:")
    return decrypt(text.removeprefix("ENC(")[:-1], password)


def opened(texts: Iterable[str | None]) -> list[str | None]:
    return [plain(text) for text in texts]


def test_texts_become_enc_under_the_first_master_password_and_null_stays_null() -> None:
    made = encrypted([{"t": "secret", "u": 1}, {"t": None, "u": 2}, {"t": "", "u": 3}], "t")
    assert opened(made.column("t").to_pylist()) == ["secret", None, ""]
    assert made.column("u").to_pylist() == [1, 2, 3]


def test_equal_texts_look_different_and_share_one_key() -> None:
    one, two = encrypted([{"t": "same"}, {"t": "same"}], "t").column("t").to_pylist()
    assert one != two
    # Version, cost and salt stand in front: 3 + 16 bytes, of which 24 characters are sure.
    assert one[:31] == two[:31]


@pytest.mark.parametrize(
    ("array", "texts"),
    [
        (pa.array([5, None], pa.int32()), ["5", None]),
        (pa.array([5.0, 0.1]), ["5", "0.1"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([2**60]), [str(2**60)]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    ],
)
def test_other_values_are_encrypted_as_their_text(array: pa.Array, texts: list[str]) -> None:
    made = encrypted(pa.record_batch({"t": array}), "t")
    assert made.schema.field("t").type == pa.string()
    assert opened(made.column("t").to_pylist()) == texts


def test_paths_lead_through_objects() -> None:
    rows = [{"user": {"token": "a", "id": 1}}, {"user": None}, {"user": {"token": None, "id": 2}}]
    made = encrypted(rows, "user.token").to_pylist()
    assert plain(made[0]["user"]["token"]) == "a"
    assert made[1:] == rows[1:]
    assert made[0]["user"]["id"] == 1


def test_a_slice_of_rows_keeps_its_own_values() -> None:
    rows = [{"user": {"token": str(n)}} for n in range(4)]
    batch = pa.RecordBatch.from_pylist(rows).slice(2)
    made = encrypted(batch, "user.token").to_pylist()
    assert [plain(row["user"]["token"]) for row in made] == ["2", "3"]


def test_one_key_of_a_map_is_encrypted() -> None:
    kind = pa.map_(pa.string(), pa.string())
    batch = pa.record_batch({"m": pa.array([[("k", "s"), ("o", "p")], None, []], kind)})
    made = encrypted(batch, "m.k").column("m").to_pylist(maps_as_pydicts="strict")
    assert plain(made[0]["k"]) == "s"
    assert (made[0]["o"], made[1:]) == ("p", [None, {}])


def test_a_map_of_numbers_cannot_hold_encrypted_text() -> None:
    batch = pa.record_batch({"m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))})
    with pytest.raises(ConversionError, match="cannot hold text"):
        encrypted(batch, "m.k")


@pytest.mark.parametrize("path", ["absent", "user.absent", "t.inside", "user.absent.more"])
def test_a_path_that_is_not_there_changes_nothing(path: str) -> None:
    rows = [{"t": "x", "user": {"id": 1}}]
    assert encrypted(rows, path).to_pylist() == rows


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("list.0", "leads through an array"),
        ("list", "leads to an array"),
        ("user", "leads to an object"),
    ],
)
def test_arrays_and_objects_are_never_written_in_plain_by_mistake(path: str, words: str) -> None:
    with pytest.raises(ConversionError, match=words) as caught:
        encrypted([{"list": [{"t": "x"}], "user": {"id": 1}}], path)
    assert not caught.value.retryable


def test_paths_use_the_names_of_the_source_and_rows_the_cleansed_ones() -> None:
    rows = [{"_user": {"the_token": "a"}}]
    made = encrypted(rows, "$user.the token", cleansing=SchemaCleansing()).to_pylist()
    assert plain(made[0]["_user"]["the_token"]) == "a"


def test_a_name_with_a_dot_is_found_as_a_whole() -> None:
    made = encrypted([{"user.token": "a"}], "user.token")
    assert opened(made.column("user.token").to_pylist()) == ["a"]


def test_derived_fields_see_the_encrypted_value() -> None:
    fields = [derived("copy", type="string", source="t")]
    made = encrypted([{"t": "secret"}], "t", derived_fields=fields)
    assert made.column("copy") == made.column("t")


def test_a_declared_string_that_is_not_nullable_is_written_so() -> None:
    schema: Schema = (Column("t", Primitive("string"), nullable=False),)
    made = encrypted([{"t": "secret"}], "t", schema=schema)
    assert made.schema.field("t").nullable is False


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ConversionError, match="no text"):
        encrypted(pa.record_batch({"t": pa.array([b"\xff"])}), "t")


def test_no_master_password_is_a_problem_of_the_job() -> None:
    with pytest.raises(ConfigError, match="no master password"):
        encrypted([{"t": "x"}], "t", passwords=())


def test_what_another_encryptor_wrote_is_encrypted_again() -> None:
    inner = Encryptor.of("first").encrypt("secret")
    (text,) = encrypted([{"t": inner}], "t").column("t").to_pylist()
    assert plain(text) == inner
