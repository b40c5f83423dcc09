"""Small steps run in the driver, large ones by tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dil.execution.stages import Executors, Stages
from dil.testing.in_process import InProcessExecutor


class Counting(InProcessExecutor):
    def __init__(self) -> None:
        super().__init__()
        self.items: list[Any] = []

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        self.items += items
        return super().map(function, items)


@pytest.mark.parametrize(
    ("items", "size", "by_tasks"),
    [([1, 2, 3], 100, True), ([1, 2, 3], 99, False), ([1], 1000, False), ([], 1000, False)],
)
def test_steps_of_many_bytes_and_several_items_are_tasks(
    items: list[int], size: int, *, by_tasks: bool
) -> None:
    executor = Counting()
    stages = Stages(Executors(None, {}, None, executor), bytes=100)

    assert stages(lambda item: item * 2, items, size) == [item * 2 for item in items]
    assert executor.items == (items if by_tasks else [])
