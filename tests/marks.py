"""Marks of several tests at once; docs/contributing.md says what the marks are for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest


def some_long(cases: Iterable[Any], *long: Any) -> list[Any]:
    """Return the parameters of a test or a fixture, with the mark on those named after them.

    A tuple is one value for each of several arguments, as ``pytest.mark.parametrize`` takes them.

    Raises:
        ValueError: one that is named is not among ``cases``.
    """
    found = list(cases)
    _require(found, long)
    return [_marked(case) if case in long else case for case in found]


def all_long_but(cases: Iterable[Any], *short: Any) -> list[Any]:
    """Return the parameters of a test or a fixture, with the mark on all but those named.

    Raises:
        ValueError: one that is named is not among ``cases``.
    """
    found = list(cases)
    _require(found, short)
    return [case if case in short else _marked(case) for case in found]


def mark_slow_below(folder: Path, items: Iterable[pytest.Item]) -> None:
    """Mark the tests of a folder as ``slow``."""
    below = f"{folder}{os.sep}"  # compared as texts, because there are many thousands of items
    for item in items:
        if str(item.path).startswith(below):
            item.add_marker(pytest.mark.slow)


def _require(cases: list[Any], named: tuple[Any, ...]) -> None:
    for case in named:
        if case not in cases:
            raise ValueError(f"{case!r} is not among the parameters {cases}")


def _marked(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.long)
