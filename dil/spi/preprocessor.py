"""The preprocessor contract: bytes to bytes, between connector and extractor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar

from dil.model.secret import Secret, revealed
from dil.model.section import Section
from dil.spi.connector import PluginProperty

Parameters = Mapping[str, str | Secret]


@dataclass(frozen=True, slots=True)
class PreprocessorContext:
    """The context of a preprocessor; one per attempt.

    ``name`` is the preprocessor's name in the job file. ``parameters`` are its parameters from
    ``ms.extract.preprocessor.parameters``: texts, or a Secret if the text is secret.
    """

    name: str
    parameters: Parameters = field(default_factory=dict, repr=False)

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter as text; this reveals a secret, so use the text only for one call."""
        return revealed(self.parameters.get(name, default))


class Preprocessor(ABC):
    """A stream filter over each response; one instance serves one attempt.

    The instance gets response after response. ``is_output`` is true if the class prepares dumped
    files: then the preprocessor comes after all others, and only file dumps may use it.
    ``parameters`` maps the names of the preprocessor's parameters to their meanings.
    """

    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()
    parameters: ClassVar[Mapping[str, str]] = {}
    is_output: ClassVar[bool] = False

    def __init__(self, context: PreprocessorContext) -> None:
        self.context = context

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Return the problems of the parameters; runs on the driver, before any I/O."""
        del parameters
        return ()

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the new name of a dumped file whose bytes passed through this preprocessor."""
        return name

    @abstractmethod
    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return a lazy stream of the changed bytes; closing it also closes ``stream``.

        The ``read`` method of the returned stream raises a SourceContractError if the bytes are
        damaged or end too early, at the latest at the end of the stream.
        """

    def close(self) -> None:  # noqa: B027 - many preprocessors have nothing to release
        """Release resources; called once at the attempt's end, even after a failure."""


def without_suffix(name: str, endings: Mapping[str, str]) -> str:
    """Return a file name with its last ending, in any letter case, replaced as in ``endings``.

    >>> without_suffix("a/B.CSV.GZ", {".gz": "", ".tgz": ".tar"})
    'a/B.CSV'
    >>> without_suffix(".gz", {".gz": ""})
    '.gz'
    """
    for ending, replacement in endings.items():
        stem = name[: -len(ending)]
        if name.lower().endswith(ending) and stem and not stem.endswith("/"):
            return stem + replacement
    return name
