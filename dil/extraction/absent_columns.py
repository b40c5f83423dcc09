"""Columns that rows or ``ms.output.schema`` do not have: new, left out, or misspelled.

A source may leave a column out (docs/formats.md), so that its values are null; one that is
misspelled looks the same, and its values are lost. A column that the source has and the schema
lacks is left out, which the run says too. The first rows of an attempt tell.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable

from dil.errors import SourceContractError
from dil.model.messages import shortened

MORE = "more columns of ms.output.schema were in none of the first rows, and are null there"
_SHOWN = 10
_CHARACTERS = 40
WRONG_NAMES = "Correct the names in ms.output.schema, or ms.data.field, which leads to the rows."


class AbsentColumns:
    """Compares the given columns with what the first rows have, once in an attempt.

    ``is_settled`` tells that there is nothing (more) to compare. ``notes`` are sentences for the
    run's report about columns that are missing on either side. Columns whose names are ``made_up``
    (lower case) come from derived fields: rows need not have them.
    """

    def __init__(self, columns: Iterable[str], made_up: Collection[str] = ()) -> None:
        every = tuple(columns)
        self._wanted = tuple(name for name in every if name.lower() not in made_up)
        self._named = frozenset(every)
        self.is_settled = not self._wanted
        self.notes: tuple[str, ...] = ()

    def compare(
        self, known: Collection[str], names: Callable[[], Collection[str]], fix: str = WRONG_NAMES
    ) -> None:
        """Compare the columns with the first rows; later calls do nothing.

        Args:
            known: Columns that the rows have for sure.
            names: Gives all names that the rows have.
            fix: What to do when there is no column at all.

        Raises:
            SourceContractError: the rows have members, and none is a column.
        """
        if self.is_settled:
            return
        self.is_settled = True
        found = names()
        absent = [name for name in self._wanted if name not in found and name not in known]
        others = [name for name in found if name not in self._wanted]
        if len(absent) == len(self._wanted) and others:
            raise _none_of(absent, others, fix)
        sentences = [_sentence(name, others) for name in absent[:_SHOWN]]
        left_out = left_out_note([name for name in found if name not in self._named])
        self.notes = (*sentences, *((MORE,) if absent[_SHOWN:] else ()), *left_out)


def left_out_note(names: list[str]) -> tuple[str, ...]:
    """Return what to say of columns that rows have and ``ms.output.schema`` has not."""
    if not names:
        return ()
    return (f"the source has columns that ms.output.schema leaves out: {_listed(names)}",)


def _sentence(name: str, others: Collection[str]) -> str:
    near = _nearest(name, others)
    meant = f'; did you mean "{_shown(near)}"?' if near else ""
    return (
        f'none of the first rows had "{_shown(name)}", a column of ms.output.schema, so it is null'
        f" there{meant}"
    )


def _none_of(columns: list[str], others: list[str], fix: str) -> SourceContractError:
    near = next(filter(None, (_nearest(name, others) for name in columns)), "")
    meant = f'Did you mean "{_shown(near)}"? ' if near else ""
    return SourceContractError(
        f"the rows have none of the columns of ms.output.schema ({_listed(columns)}); they have"
        f" {_listed(others)}",
        f"{meant}{fix}",
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(map(_shown, names[:_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _shown(name: str) -> str:
    return shortened(name, _CHARACTERS)


def _nearest(name: str, names: Iterable[str]) -> str:
    by_lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[near[0]] if near else ""
