"""Turns columns of a file into output columns: clean names, and only the requested members."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.names import NameCleansing
from dil.model.arrow import raw_schema
from dil.model.schema import ArrayType, Column, DataType, MapType, RecordType
from dil.types.nested import items_of, rebuilt

_NESTED = (RecordType, ArrayType, MapType)


@dataclass(frozen=True, slots=True)
class FileColumnShape:
    """The output type of a column; ``inside`` are the shapes of its members or of its items.

    ``places`` has the index of each member in the file's record, None if the file lacks the member.
    """

    type: pa.DataType
    inside: tuple[FileColumnShape, ...] = ()
    places: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class RowShape:
    """The rows of one file: their schema, and the file's column for each column of the schema.

    ``columns`` are the columns to read, by their names in the file. ``left_out`` are the clean
    names of all other columns, and the paths of members that are left out of records.
    """

    schema: pa.Schema
    columns: tuple[str, ...]
    shapes: dict[str, tuple[str, FileColumnShape]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of the file with the columns and types of this schema."""
        arrays = [
            shaped(batch.column(self.shapes[name][0]), self.shapes[name][1])
            if name in self.shapes
            else pa.nulls(batch.num_rows, self.schema.field(name).type)
            for name in self.schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class Shaping:
    """Makes the shapes of one job's files; finds names that become equal, across all files."""

    def __init__(self, names: NameCleansing | None) -> None:
        self._names = names
        self._left_out: list[str] = []

    def rows(self, schema: pa.Schema, given: Sequence[Column] | None) -> RowShape:
        """Return the output columns of a file: all its columns, or exactly those in ``given``.

        Raises:
            SourceContractError: two names are equal or become equal, or plain values are declared
                as a nested column.
        """
        sources = self._clean_names(schema.names, "")
        shapes, fields = {}, []
        self._left_out = []
        for name, declared, absent in _wanted(sources, given):
            if absent is not None:
                fields.append(absent)
                continue
            source = schema.field(sources[name])
            shape = self.of(source.type, declared, name)
            shapes[name] = (source.name, shape)
            fields.append(pa.field(name, shape.type))
        columns = tuple(source for source, _ in shapes.values())
        others = [name for name in sources if name not in shapes]
        return RowShape(pa.schema(fields), columns, shapes, (*others, *self._left_out))

    def of(self, kind: pa.DataType, declared: DataType | None, path: str) -> FileColumnShape:
        """Return the shape of a column; if ``declared`` is a record, it gives the members."""
        if pa.types.is_struct(kind):
            return self._record(kind, declared, path)
        if pa.types.is_map(kind):
            inner = declared.values if isinstance(declared, MapType) else None
            item = self.of(kind.item_type, inner, f"{path}.*")
            return FileColumnShape(pa.map_(kind.key_type, item.type), (item,))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            inner = declared.items if isinstance(declared, ArrayType) else None
            item = self.of(kind.value_type, inner, f"{path}[]")
            return FileColumnShape(pa.list_(item.type), (item,))
        if isinstance(declared, _NESTED):
            raise SourceContractError(
                f'column "{path}" is declared as nested, but its type in the file is {kind}',
                "Correct its type in ms.output.schema.",
            )
        return FileColumnShape(kind)

    def _record(self, kind: pa.StructType, declared: DataType | None, path: str) -> FileColumnShape:
        names = [kind.field(place).name for place in range(kind.num_fields)]
        sources = self._clean_names(names, f"{path}.")
        columns = declared.columns if isinstance(declared, RecordType) else None
        members: list[tuple[pa.Field, FileColumnShape, int | None]] = []
        for name, inner, absent in _wanted(sources, columns):
            if absent is not None:
                members.append((absent, FileColumnShape(absent.type), None))
                continue
            place = names.index(sources[name])
            shape = self.of(kind.field(place).type, inner, f"{path}.{name}")
            members.append((pa.field(name, shape.type), shape, place))
        kept = {field.name for field, _, _ in members}
        self._left_out += [f"{path}.{name}" for name in sources if name not in kept]
        return FileColumnShape(
            pa.struct([field for field, _, _ in members]),
            tuple(shape for _, shape, _ in members),
            tuple(place for _, _, place in members),
        )

    def _clean_names(self, names: Sequence[str], path: str) -> dict[str, str]:
        """Return a map from each clean name of a level to the name in the file."""
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise SourceContractError(
                f'the file has more than one column "{path}{twice}"',
                "Write the columns with different names.",
            )
        if self._names is None:
            return dict(zip(names, names, strict=True))
        self._names.register(names, path)
        return {self._names.clean(name): name for name in names}


def shaped(array: pa.Array, shape: FileColumnShape) -> pa.Array:
    """Return values converted to the type of their shape."""
    if array.type == shape.type:
        return array
    if pa.types.is_struct(shape.type):
        members = [
            pa.nulls(len(array), inner.type) if place is None else shaped(array.field(place), inner)
            for place, inner in zip(shape.places, shape.inside, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        if not members:
            return pa.array([None if null else {} for null in array.is_null()], shape.type)
        return pa.StructArray.from_arrays(members, fields=list(shape.type), mask=mask)
    (inner,) = shape.inside
    return rebuilt(array, shaped(items_of(array), inner), shape.type)


def _wanted(
    there: Collection[str], given: Sequence[Column] | None
) -> Iterator[tuple[str, DataType | None, pa.Field | None]]:
    """Yield each name of one level, its declared type, and its field if the file lacks it."""
    if given is None:
        yield from ((name, None, None) for name in there)
        return
    for column in given:
        absent = None if column.name in there else raw_schema((column,)).field(0)
        yield column.name, column.type, absent
