"""A process that is killed at a step, while the process of the test goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


class KilledError(BaseException):
    """The process is gone."""


def killed(*_arguments: object, **_options: object) -> NoReturn:
    """Stand in for a step at which the process is killed."""
    raise KilledError


def killed_after(calls: int, step: Callable[..., object]) -> Callable[..., object]:
    """Return a step that works for some calls; at the next call the process is killed."""
    left = calls

    def some(*arguments: object, **options: object) -> object:
        nonlocal left
        if not left:
            raise KilledError
        left -= 1
        return step(*arguments, **options)

    return some
