"""The classes that a job names, as they were found."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.job import ClassRef, PreprocessorSpec


@dataclass(slots=True)
class Plugins:
    """The classes of a job; None where one could not be found."""

    connector: ClassRef | None = None
    extractor: ClassRef | None = None
    converters: tuple[ClassRef, ...] = ()
    preprocessors: tuple[PreprocessorSpec, ...] = ()

    @property
    def refs(self) -> tuple[ClassRef, ...]:
        """Return all classes that were found."""
        found = (self.connector, self.extractor, *self.converters)
        return (*filter(None, found), *(spec.filter for spec in self.preprocessors))
