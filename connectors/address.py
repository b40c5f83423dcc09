"""The error of every connector for a text that is no address of its protocol."""

from __future__ import annotations


class AddressError(ValueError):
    """A text that names no place: ``what`` is wrong with it, ``fix`` is what to write."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix
