"""Names the file that holds the bytes of a response (rule U6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from dil.errors import SourceContractError
from dil.spi.converter import Converter, ConverterContext, PageFacts
from dil.spi.preprocessor import Preprocessor
from dil.spi.registry import load
from dil.text.file_names import fitted, relative_name
from dil.text.variables import substitute

KEY = "ms.extractor.target.file.name"
ALONE, NUMBERED, DATA = "file", "numbered_file", "data"
CUT = "a file name was longer than 255 bytes and was cut; a hash of the whole name is in it"


class FileNames(Converter):
    """Adds two file names to each piece: one for an only file, one with a number for several files.

    Preprocessors change the names, as they change the bytes. A preprocessor that prepares output
    changes the name after the number was added.
    """

    def __init__(self, context: ConverterContext) -> None:
        super().__init__(context)
        spec = context.job.extraction
        self._template = context.job.writing.file_name
        self._is_paged = spec.pagination.is_on
        classes: list[type[Preprocessor]] = [load(each.filter) for each in spec.preprocessors]
        self._before = [each.file_name for each in classes if not each.is_output]
        self._after = [each.file_name for each in classes if each.is_output]
        self._was_cut = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note if a file name was cut."""
        return (CUT,) if self._was_cut else ()

    def convert(self, batch: pa.RecordBatch, facts: PageFacts) -> Iterator[pa.RecordBatch]:
        """Yield the pieces with their names.

        Raises:
            SourceContractError: the name that results from the values of this request cannot be
                used.
        """
        found = substitute(self._template, facts.variables)
        if found.missing:
            names = ", ".join(sorted(found.missing))
            raise SourceContractError(
                f'{KEY} is "{self._template}", but {names} has no value',
                "Name a parameter, a variable of the unit, or an authentication field.",
            )
        base = self._checked(_through(self._before, found.text))
        numbered = self._final(f"{base}_{max(facts.number - 1, 0)}")
        alone = numbered if self._is_paged else self._final(base)
        size = batch.num_rows
        yield pa.RecordBatch.from_arrays(
            [pa.array([alone] * size), pa.array([numbered] * size), batch.column(0)],
            names=[ALONE, NUMBERED, DATA],
        )

    def _final(self, name: str) -> str:
        whole = _through(self._after, name)
        cut = fitted(whole)
        self._was_cut = self._was_cut or cut != whole
        return self._checked(cut)

    def _checked(self, name: str) -> str:
        try:
            return relative_name(name)
        except ValueError as error:
            raise SourceContractError(
                f"the file name {json.dumps(name, ensure_ascii=False)} {error}",
                f"It comes from {KEY} with the values of this work unit. DIL writes files only"
                " below data.publisher.final.dir. Put a text in front of the name, or exclude"
                " such files (ms.source.files.pattern).",
            ) from None


def _through(changes: Iterable[Callable[[str], str]], name: str) -> str:
    for change in changes:
        name = change(name)
    return name
