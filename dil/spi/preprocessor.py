"""The preprocessor contract: bytes to bytes, between connector and extractor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, ClassVar

from dil.model.secret import Secret
from dil.model.section import Section
from dil.spi.connector import PluginProperty

Parameters = Mapping[str, str | Secret]


@dataclass(frozen=True, slots=True)
class PreprocessorContext:
    """The context of a preprocessor; one per attempt.

    ``name`` is how the job file names it, ``parameters`` are its own of
    ``ms.extract.preprocessor.parameters``: texts, those that are secret as Secret.
    """

    name: str
    parameters: Parameters = field(default_factory=dict, repr=False)

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter as text, a secret revealed: for the one call that needs it."""
        value = self.parameters.get(name, default)
        return value.reveal() if isinstance(value, Secret) else value


class Preprocessor(ABC):
    """A stream filter over each response. One instance serves one attempt, response by response.

    ``is_output`` says that it prepares dumped files: it comes after all others, and only file
    dumps may have it. ``parameters`` names all parameters that it knows, with their meaning.
    """

    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()
    parameters: ClassVar[Mapping[str, str]] = {}
    is_output: ClassVar[bool] = False

    def __init__(self, context: PreprocessorContext) -> None:
        self.context = context

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Return what is wrong with the parameters; on the driver, before any I/O."""
        del parameters
        return ()

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name of a dumped file whose bytes went through, from its name before."""
        return name

    @abstractmethod
    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return a stream of the changed bytes: it reads lazily, and closing it closes ``stream``.

        Its ``read`` raises a SourceContractError where the bytes are damaged or end too early, at
        the latest at their end.
        """

    def close(self) -> None:  # noqa: B027 - many preprocessors have nothing to release
        """Release what is held; called once, at the attempt's end, whatever happened."""


def without_suffix(name: str, endings: Mapping[str, str]) -> str:
    """Return a file name whose last ending, in any letter case, is replaced as ``endings`` say.

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
