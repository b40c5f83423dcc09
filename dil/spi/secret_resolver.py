"""Secrets in other stores: a resolver is a class for all references with one prefix.

If ``ms.secret.resolvers=vault`` names a resolver, ``vault:orders#password`` is a reference. The
resolver runs only on the driver, while a job is loaded; tasks get the secrets with the job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


class UnresolvedReferenceError(ValueError):
    """A reference leads to no secret; ``fix`` is the advice. Neither text may hold a secret.

    ``what`` continues the property's name, as in "names orders#password, which is not there".
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix


@dataclass(frozen=True, slots=True)
class ResolverContext:
    """The context of a resolver: the environment, and the folder of the job file.

    The resolver's own settings, such as an address and a token, come from the environment, because
    properties are read after secrets.
    """

    environ: Mapping[str, str] = field(repr=False)
    folder: Path


class ReferenceResolver(ABC):
    """Resolves references; a reference is the whole text behind the prefix and its colon.

    One instance serves one job while it is loaded. Each reference is resolved once, even if several
    properties contain it. Creating an instance does no I/O; ``resolve`` closes everything that it
    opens.
    """

    def __init__(self, context: ResolverContext) -> None:
        self.context = context

    def check(self, reference: str) -> None:  # noqa: B027 - any text may be right
        """Check the form of a reference, without any I/O: `dil plan` does not need the secret.

        Raises:
            UnresolvedReferenceError: no secret can have this reference.
        """

    @abstractmethod
    def resolve(self, reference: str) -> str:
        """Return the secret that a reference names.

        Raises:
            UnresolvedReferenceError: the secret does not exist, or cannot be read now.
        """
