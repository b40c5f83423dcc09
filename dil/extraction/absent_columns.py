"""Finds columns that the rows or ``ms.output.schema`` lack: new, left out, or misspelled.

A source may leave a column out (docs/formats.md): then the values of the column are null. A
misspelled column looks the same, and the values of the source's column are lost. If the source has
a column that the schema lacks, the column is left out, and the run reports it. Only the first rows
of an attempt are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import pyarrow as pa

from dil.errors import SourceContractError
from dil.model.messages import SHOWN_NAMES, listed, nearest_word, short_name

MORE = (
    "in the first rows some columns of ms.output.schema were missing; they are null in these rows"
)
WRONG_NAMES = "Correct the names in ms.output.schema, or ms.data.field, which leads to the rows."


class AbsentColumns:
    """Compares the given columns with the columns of the first rows, once in an attempt.

    ``is_settled`` is true if nothing is left to compare. ``notes`` are sentences for the run's
    report about columns that the rows do not have. ``left_out`` are the names of columns that the
    rows have and the schema lacks. ``made_up`` are the names, in lower case, of columns that
    derived fields make: the rows need not have these columns.
    """

    def __init__(self, columns: Iterable[str], made_up: Collection[str]) -> None:
        every = tuple(columns)
        self._wanted = tuple(name for name in every if name.lower() not in made_up)
        self._named = frozenset(every)
        self.is_settled = not self._wanted
        self.notes: tuple[str, ...] = ()
        self.left_out: tuple[str, ...] = ()

    def compare(
        self,
        known: Collection[str],
        names: Callable[[], Collection[str]],
        fix: str = WRONG_NAMES,
        below: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """Compare the columns with the first rows; later calls do nothing.

        Args:
            known: Columns that the rows certainly have.
            names: Returns all names in the rows.
            fix: The advice for the error that the rows have none of the columns.
            below: Returns the paths of the members of records that the schema leaves out.

        Raises:
            SourceContractError: the rows have members, but none of them is a column.
        """
        if self.is_settled:
            return
        self.is_settled = True
        found = names()
        absent = [name for name in self._wanted if name not in found and name not in known]
        others = [name for name in found if name not in self._wanted]
        if len(absent) == len(self._wanted) and others:
            raise _none_of(absent, others, fix)
        sentences = [_sentence(name, others) for name in absent[:SHOWN_NAMES]]
        self.left_out = (*(name for name in found if name not in self._named), *below())
        self.notes = (*sentences, *((MORE,) if absent[SHOWN_NAMES:] else ()))


def left_out_note(names: Sequence[str]) -> tuple[str, ...]:
    """Return the notes about columns that rows have but ``ms.output.schema`` lacks."""
    if not names:
        return ()
    return (f"the source has columns that ms.output.schema leaves out: {listed(names)}",)


def left_out_below(
    rows: Iterable[object], schema: pa.Schema, clean: Callable[[str], str] = str
) -> list[str]:
    """Return the paths of members of records, at any depth, that a schema leaves out.

    ``clean`` returns the column name for a member's name.

    >>> a = pa.schema([("rec", pa.list_(pa.struct([("a", pa.int64())])))])
    >>> left_out_below([{"rec": [{"a": 1, "b": 2}], "c": 3}], a)
    ['rec[].b']
    """
    found: dict[str, None] = {}
    for row in rows:
        for name, value in row.items() if isinstance(row, dict) else ():
            column = clean(name)
            at = schema.get_field_index(column)
            if at >= 0:
                found.update(dict.fromkeys(_unknown(value, schema.field(at).type, column, clean)))
    return list(found)


def _unknown(
    value: object, kind: pa.DataType, path: str, clean: Callable[[str], str]
) -> Iterator[str]:
    """Yield the paths of members that a value has and its type lacks."""
    if pa.types.is_list(kind):
        for item in value if isinstance(value, list) else [value]:  # one element of an XML document
            yield from _unknown(item, kind.value_type, f"{path}[]", clean)
    elif isinstance(value, dict) and pa.types.is_map(kind):
        for item in value.values():
            yield from _unknown(item, kind.item_type, f"{path}.*", clean)
    elif isinstance(value, dict) and pa.types.is_struct(kind):
        for name, member in value.items():
            column = clean(name)
            at = kind.get_field_index(column)
            if at < 0:
                yield f"{path}.{column}"
            else:
                yield from _unknown(member, kind.field(at).type, f"{path}.{column}", clean)


def _sentence(name: str, others: Collection[str]) -> str:
    near = nearest_word(name, others)
    meant = f'; did you mean "{short_name(near)}"?' if near else ""
    return (
        f'none of the first rows had "{short_name(name)}", a column of ms.output.schema: it is null'
        f" in these rows{meant}"
    )


def _none_of(columns: list[str], others: list[str], fix: str) -> SourceContractError:
    near = next(filter(None, (nearest_word(name, others) for name in columns)), "")
    meant = f'Did you mean "{short_name(near)}"? ' if near else ""
    return SourceContractError(
        f"the rows have none of the columns of ms.output.schema ({listed(columns)}); they have"
        f" {listed(others)}",
        f"{meant}{fix}",
    )
