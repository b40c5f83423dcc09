"""A sequence that makes its items when they are accessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class OnDemand(Sequence[T_co]):
    """An immutable sequence; ``make`` makes the item at a position each time it is accessed.

    It equals a tuple or list of equal items, hashes like the tuple, and pickles if ``make``
    pickles. So a plan of a million work units takes only the memory of the columns from which
    ``make`` makes them.
    """

    __slots__ = ("_make", "_positions")

    def __init__(self, make: Callable[[int], T_co], positions: range) -> None:
        self._make = make
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> OnDemand[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | OnDemand[T_co]:
        if isinstance(index, slice):
            return OnDemand(self._make, self._positions[index])
        return self._make(self._positions[index])

    def __iter__(self) -> Iterator[T_co]:
        return map(self._make, self._positions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OnDemand | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
