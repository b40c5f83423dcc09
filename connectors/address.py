"""The error that all connectors raise for a text that is no address of their protocol."""

from __future__ import annotations


class AddressError(ValueError):
    """A text is not an address; ``what`` is the problem, ``fix`` is the advice."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix
