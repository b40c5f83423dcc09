"""References that a plug-in resolves, by their prefix, such as ``vault:``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from traceback import extract_tb
from typing import TypeVar

from dil.model.secret import Secret
from dil.spi.secret_resolver import ReferenceResolver, UnresolvedReferenceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class PluggedReferences:
    """The resolvers of a job by their prefixes; each reference is resolved once."""

    resolvers: Mapping[str, ReferenceResolver] = field(default_factory=dict)
    _known: dict[str, Secret] = field(default_factory=dict, compare=False)

    def knows(self, text: str) -> bool:
        """Return whether a whole text is a reference with one of the prefixes."""
        prefix, colon, _ = text.partition(":")
        return bool(colon) and prefix in self.resolvers

    def check(self, text: str) -> None:
        """Check the form of a reference, without any I/O.

        Raises:
            UnresolvedReferenceError: no secret can have this reference.
        """
        prefix, _, reference = text.partition(":")
        _called(prefix, self.resolvers[prefix].check, reference)

    def resolve(self, text: str) -> Secret:
        """Return the secret of a reference.

        Raises:
            UnresolvedReferenceError: the resolver finds no secret, or is broken.
        """
        if text not in self._known:
            prefix, _, reference = text.partition(":")
            found: object = _called(prefix, self.resolvers[prefix].resolve, reference)
            if not isinstance(found, str):
                what = f"is a reference for {prefix}, which gave {type(found).__name__} and no text"
                raise UnresolvedReferenceError(what, "Mend the resolver: it has to return a str.")
            self._known[text] = Secret(found)
        return self._known[text]


def _called(prefix: str, method: Callable[[str], T], reference: str) -> T:
    try:
        return method(reference)
    except UnresolvedReferenceError:
        raise
    except Exception as error:
        # The text of a foreign exception may hold the secret, or the token that opens it.
        place = extract_tb(error.__traceback__)[-1]
        raise UnresolvedReferenceError(
            f"is a reference for {prefix}, whose resolver failed ({type(error).__name__})",
            f"Mend the resolver: {place.filename}, line {place.lineno}, raised it.",
        ) from error
