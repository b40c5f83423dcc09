"""Replaces values by ``ENC(...)`` of their text, before any other step gets the rows.

See docs/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dil.conversion.texts import text_of
from dil.errors import ConfigError, ConversionError
from dil.model.arrow import TYPE_KEY
from dil.model.settings import SchemaCleansing
from dil.secrets.authenticated import Encryptor
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.text.java_regex import compile_java
from dil.text.paths import compile_path
from dil.types.nested import items_of, keys_of, members_of, rebuilt, records

_KEY = "ms.encryption.fields"
_WORD = {TYPE_KEY: b"string"}
_FIX = f"Correct {_KEY}: paths lead through objects to single values."


class EncryptedFields(Converter):
    """Encrypts the job's fields under its first master password, in the form ``ENC(v1:...)``.

    This form names no purpose, because later jobs and other tools read the columns under other
    names. The key is derived once in each attempt: all texts share the key's salt, and each text
    has a nonce of its own. Null stays null; a path that a page does not have changes nothing.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        passwords = context.job.keys.passwords
        if not passwords:
            raise ConfigError.single(
                _KEY,
                "asks for encryption, but there is no master password",
                "Name the file that holds the master password in encrypt.key.loc.",
            )
        self._encryptor = Encryptor.of(passwords[0].reveal())
        cleansing = context.job.extraction.cleansing
        self._paths = [
            (path, [_cleansed(str(name), cleansing) for name in compile_path(path).steps])
            for path in context.job.conversion.encrypted_fields
        ]

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the batch with the values encrypted.

        Raises:
            ConversionError: a path leads to or through an array, or to an object.
        """
        del facts
        fields, columns = list(batch.schema), list(batch.columns)
        for path, names in self._paths:
            whole = ".".join(names)
            first, rest = (whole, []) if whole in batch.schema.names else (names[0], names[1:])
            place = batch.schema.get_field_index(first)
            if place >= 0:
                fields[place], columns[place] = self._replaced(
                    fields[place], columns[place], rest, path
                )
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _replaced(
        self, field: pa.Field, array: pa.Array, names: Sequence[str], path: str
    ) -> tuple[pa.Field, pa.Array]:
        """Return a column in which the value at the path ``names`` is encrypted."""
        if array.null_count == len(array) and (names or pa.types.is_nested(array.type)):
            return field, array
        if not names:
            text = self._encrypted(array, path)
            return pa.field(field.name, text.type, field.nullable, _WORD), text
        if pa.types.is_struct(array.type):
            inside = self._member(array, names, path)
            return field.with_type(inside.type), inside
        if pa.types.is_map(array.type):
            inside = self._entry(array, names, path)
            return field.with_type(inside.type), inside
        if pa.types.is_nested(array.type):
            raise ConversionError(f'{_KEY}: "{path}" leads through an array', _FIX)
        return field, array  # A plain value has nothing inside.

    def _member(self, array: pa.StructArray, names: Sequence[str], path: str) -> pa.Array:
        members = members_of(array)
        if names[0] not in members:
            return array
        members[names[0]] = self._replaced(*members[names[0]], names[1:], path)
        fields, columns = zip(*members.values(), strict=True)
        return records(list(columns), list(fields), array.is_null())

    def _entry(self, array: pa.MapArray, names: Sequence[str], path: str) -> pa.Array:
        items, item = items_of(array), array.type.item_field
        chosen = pc.equal(keys_of(array), names[0]).fill_null(fill_value=False)
        field, replaced = self._replaced(item, items.filter(chosen), names[1:], path)
        if replaced.type != items.type:
            raise ConversionError(
                f'{_KEY}: "{path}" leads into a map of {items.type}, which cannot hold text', _FIX
            )
        kind = pa.map_(array.type.key_type, field)
        return rebuilt(array, pc.replace_with_mask(items, chosen, replaced), kind)

    def _encrypted(self, array: pa.Array, path: str) -> pa.Array:
        if pa.types.is_nested(array.type):
            kind = "an object" if pa.types.is_struct(array.type) else "an array or map"
            raise ConversionError(f'{_KEY}: "{path}" leads to {kind}, not to single values', _FIX)
        try:
            texts = text_of(array).to_pylist()
        except pa.ArrowInvalid:
            raise ConversionError(
                f'{_KEY}: "{path}" leads to bytes that are no text', _FIX
            ) from None
        encrypt = self._encryptor.encrypt
        return pa.array([None if text is None else encrypt(text) for text in texts], pa.string())


def _cleansed(name: str, cleansing: SchemaCleansing | None) -> str:
    """Return the cleansed form of a source's name; rows have this form."""
    if cleansing is None:
        return name
    return compile_java(cleansing.pattern).sub(lambda _: cleansing.replacement, name)
