"""A process that is killed at a step, while the process of the test goes on."""

from __future__ import annotations

from typing import NoReturn


class KilledError(BaseException):
    """The process is gone."""


def killed(*_arguments: object, **_options: object) -> NoReturn:
    """Stand in for a step at which the process is killed."""
    raise KilledError
