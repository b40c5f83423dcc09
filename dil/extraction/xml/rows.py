"""Makes record batches from XML elements, with given columns or with columns found in the rows.

All values are text unless a type is given. Elements of the same name may differ: some are repeated
or have attributes, and others not. The two classes bring all elements of a name to one form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from dil.errors import SourceContractError
from dil.extraction.absent_columns import AbsentColumns, left_out_below
from dil.extraction.coercion import RowPosition, coerced_batch
from dil.extraction.names import NameCleansing
from dil.extraction.shapes import FoundShape
from dil.extraction.sizes import Width
from dil.extraction.xml.document import XmlValue
from dil.model.arrow import raw_schema
from dil.model.job import ExtractionSpec
from dil.model.schema import ArrayType, DataType, MapType, Primitive, RecordType, Schema

XmlRow = dict[str, XmlValue]

_SAMPLE_ROWS = 100
_BOOLEANS = {"1": "true", "0": "false"}


class XmlColumns(ABC):
    """The columns of one attempt; documents come one after another."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences for the run's report about the rows read so far."""
        return ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the names of columns that the rows had and the output lacks."""
        return ()

    @abstractmethod
    def batch(self, rows: Sequence[XmlRow], position: RowPosition) -> pa.RecordBatch:
        """Return rows as a batch; ``position`` is the position of the first row, for messages.

        Raises:
            SourceContractError: two names become equal by cleansing.
            ConversionError: a value does not fit its column.
        """


class GivenXmlColumns(XmlColumns):
    """Exactly the columns of ``ms.output.schema``; elements that are no columns are dropped.

    In an array column a single element is an array of one. A plain column takes the text of an
    element, and ignores its attributes. If the column is a record and an element has only text,
    the text becomes the record's member for text.
    """

    def __init__(
        self,
        columns: Schema,
        names: NameCleansing | None,
        text_name: str,
        made_up: Collection[str],
    ) -> None:
        self._types = {column.name: column.type for column in columns}
        self._schema = raw_schema(columns)
        self._names = names
        self._text = text_name
        self._absent = AbsentColumns(self._types, made_up)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about columns that the first rows lacked."""
        return self._absent.notes

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the names of columns that the first rows had and the schema lacks."""
        return self._absent.left_out

    def batch(self, rows: Sequence[XmlRow], position: RowPosition) -> pa.RecordBatch:
        """Return the batch in the given schema."""
        objects: Sequence[Any] = rows
        known = pa.struct(list(self._schema))
        if self._names and self._names.register_known(objects, known):
            objects = self._names.renamed_rows(objects)
        if rows and not self._absent.is_settled:
            self._compare(objects)
        fitting = [
            {name: self._fit(row.get(name), kind) for name, kind in self._types.items()}
            for row in objects
        ]
        return coerced_batch(fitting, self._schema, position)

    def _compare(self, rows: Sequence[Any]) -> None:
        """Compare the columns with the names in the first rows.

        Raises:
            SourceContractError: the rows have members, but none of them is a column.
        """
        clean = self._names.clean if self._names else str
        found = dict.fromkeys(clean(name) for row in rows for name in row)
        below = partial(left_out_below, rows[:_SAMPLE_ROWS], self._schema, clean)
        self._absent.compare((), lambda: found, below=below)

    def _fit(self, value: Any, kind: DataType) -> Any:  # XML of any form
        if value is None:
            return None
        if isinstance(kind, ArrayType):
            elements = value if isinstance(value, list) else [value]
            return [self._fit(element, kind.items) for element in elements]
        if not isinstance(kind, RecordType | MapType):
            return self._plain(value, kind)
        members = {self._text: value} if isinstance(value, str) else value
        if not isinstance(members, dict):
            return members  # An array in a plain column raises an error when the batch is made.
        if isinstance(kind, MapType):
            return {name: self._fit(each, kind.values) for name, each in members.items()}
        return {
            column.name: self._fit(members.get(column.name), column.type) for column in kind.columns
        }

    def _plain(self, value: Any, kind: DataType) -> Any:  # XML of any form
        text = value.get(self._text, value) if isinstance(value, dict) else value
        is_boolean = isinstance(kind, Primitive) and kind.word == "boolean"
        return _BOOLEANS.get(text, text) if is_boolean and isinstance(text, str) else text


class FoundXmlColumns(XmlColumns):
    """Columns found in the rows, all of them text, except for ``ms.data.default.type``.

    After an element has occurred twice in its parent, all elements of its name become arrays. After
    an element has had attributes or children, all elements of its name become objects. Every batch
    may append columns.
    """

    def __init__(self, spec: ExtractionSpec, names: NameCleansing | None, text_name: str) -> None:
        self._names = names
        self._text = text_name
        self._defaults = dict(spec.default_types)
        self._shape = FoundShape(width=Width(spec.most_columns))
        self._schema: pa.Schema | None = None
        self._arrays: set[str] = set()
        self._objects: set[str] = set()

    def batch(self, rows: Sequence[XmlRow], position: RowPosition) -> pa.RecordBatch:
        """Return the batch in the schema that is known after these rows."""
        objects: list[Any] = list(rows)
        for row in objects:
            for name, value in row.items():
                if isinstance(value, dict | list):
                    self._learn(value, f".{name}")
        if self._arrays or self._objects:
            objects = [self._uniform(row, "") for row in objects]
        if self._names and self._names.register_levels(_shape_of(objects).levels()):
            objects = self._names.renamed_rows(objects)
        self._shape.observe(objects)
        self._schema = raw_schema(self._shape.columns(self._defaults))
        if not len(self._schema):
            raise SourceContractError(
                "the rows have neither members nor text",
                "Describe the columns in ms.output.schema.",
            )
        if self._defaults:
            return coerced_batch(objects, self._schema, position)
        found_rows = pa.array(objects, type=pa.struct(list(self._schema)))
        return pa.RecordBatch.from_arrays(found_rows.flatten(), schema=self._schema)

    def _learn(self, value: Any, path: str) -> None:  # XML of any form
        """Record the paths of arrays and the paths of objects."""
        if isinstance(value, list):
            self._arrays.add(path)
            for element in value:
                self._learn(element, path)
        elif isinstance(value, dict):
            self._objects.add(path)
            for name, member in value.items():
                self._learn(member, f"{path}.{name}")

    def _uniform(self, value: Any, path: str, *, inside: bool = False) -> Any:
        """Return a value in the form that all values of its path have."""
        if value is None:
            return None
        if path in self._arrays and not inside:
            elements = value if isinstance(value, list) else [value]
            return [self._uniform(element, path, inside=True) for element in elements]
        if path in self._objects and not isinstance(value, dict):
            value = {self._text: value}
        if not isinstance(value, dict):
            return value
        return {name: self._uniform(each, f"{path}.{name}") for name, each in value.items()}


def _shape_of(objects: Sequence[Any]) -> FoundShape:
    shape = FoundShape()
    shape.observe(objects)
    return shape
