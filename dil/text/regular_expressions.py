"""Checks of regular expressions inside JSON properties."""

from __future__ import annotations

from dil.model.suggestions import REGEX_FIX
from dil.spi.reading import ShapeError


def check_regex(pattern: str, where: str) -> None:
    """Refuse a text that is no Java regular expression.

    Raises:
        ShapeError: with ``where`` in front.
    """
    if error := regex_error(pattern):
        raise ShapeError((f"{where}: {error}", REGEX_FIX)) from error


def regex_error(pattern: str) -> ValueError | None:
    """Return why a text is no Java regular expression, None when it is one."""
    from dil.text.java_regex import compile_java  # few jobs have expressions

    try:
        compile_java(pattern)
    except ValueError as error:
        return error
    return None
