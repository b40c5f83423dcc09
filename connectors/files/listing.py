"""Makes the body of an answer from names of files, in the form that the job's extractor reads.

See docs/object-stores.md, docs/files.md. Names are taken while the body is read, so a list of
any length needs little memory.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import cast

from dil.errors import PluginError, Problem, SourceContractError
from dil.extraction.streams import ReadStream
from dil.model.csv_settings import CsvSettings
from dil.model.job import ClassRef, ExtractionSpec, Job
from dil.model.messages import shortened
from dil.model.properties import Properties
from dil.sections.extraction import EXTRACTOR, ExtractionSection
from dil.spi.connector import Response
from dil.spi.extractor import Extractor
from dil.spi.registry import PluginKind, load, resolve

_JSON, _CSV, _TEXT = "application/json", "text/csv", "text/plain"
_BLOCK_NAMES = 1_000
_NAME = "values"
_FORMS = {"JsonExtractor": _JSON, "CsvExtractor": _CSV, "TextExtractor": _TEXT}
_FIX = "Set ms.extractor.class=json, csv or text for a list of names."
_RENAME = "Rename the file, or read the list with ms.extractor.class=json."


def listing_response(names: Iterable[str], job: Job, location: str = "") -> Response:
    """Return the answer with these names: a JSON array of ``{"values": name}``, or a line for each.

    If there are no names, there are no rows. Reading the body consumes ``names`` and raises the
    errors of ``names``. Closing the body closes ``names`` if this is a generator.

    Args:
        names: The names, in the order in which they become rows.
        job: The job; its extractor, character set and ``ms.csv`` decide the form.
        location: The name of the list in messages, without secrets.

    Raises:
        SourceContractError: the extractor reads no list of names (``listing_problems`` reports that
            before the run). Reading the body raises it for a name that this form cannot hold.
    """
    form = _form(job.extraction.extractor)
    if form is None:
        what = f"{location}: {job.extraction.extractor.qualname} reads no list of names"
        raise SourceContractError(what, _FIX)
    pieces = _array(names) if form == _JSON else _lines(names, form, job.extraction)
    body = _Listing(names, pieces, job.extraction.charset, location)
    return Response(body, content_type=form, location=location)  # type: ignore[arg-type]


def listing_problems(properties: Properties) -> Iterator[Problem]:
    """Yield a problem if the job's extractor cannot read a list of names; do no I/O."""
    name = properties.section(ExtractionSection).extractor
    try:
        form = _form(resolve(PluginKind.EXTRACTOR, name, Extractor))
    except PluginError:
        return  # The job's check of its classes reports this.
    if form is None:
        what = f'is "{name}", which reads no list of names'
        yield Problem(properties.origin(EXTRACTOR), EXTRACTOR, what, _FIX)


def _form(extractor: ClassRef) -> str | None:
    """Return the media type in which an extractor reads lists, None if it reads no list.

    A user's own class gets CSV if it accepts text/csv and no JSON; otherwise it gets JSON.
    """
    if extractor.module.startswith("dil."):
        return _FORMS.get(extractor.qualname)
    found = load(extractor)
    kinds = found.content_types if issubclass(found, Extractor) else ()
    return _CSV if _CSV in kinds and _JSON not in kinds else _JSON


def _array(names: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of ``[{"values": name}, ...]``, in ASCII."""
    before = "["
    for name in names:
        name.isascii() or name.encode()  # json.dumps would accept half of a surrogate pair.
        yield f'{before}{{"{_NAME}":{json.dumps(name)}}}'
        before = ",\n"
    yield "]" if before != "[" else "[]"


def _lines(names: Iterable[str], form: str, spec: ExtractionSpec) -> Iterator[str]:
    """Yield a line for each name; in CSV, a header comes first for each line that is skipped."""
    line: Callable[[str], str] = _text_line
    if form == _CSV:
        line = _csv_cell(spec.csv.settings)
        # The only column has the name that ms.output.schema gives it, else ``values``.
        columns = (each.name for each in spec.output_schema or ())
        header = next((name for name in columns if name.lower() not in spec.csv.made_up), _NAME)
        for _ in range(spec.csv.settings.skipped):
            yield f"{line(header)}\n"
    for name in names:
        yield f"{line(name)}\n"


def _text_line(name: str) -> str:
    if "\n" in name or "\r" in name:
        raise _unwritable(name, "has a line break")
    return name


def _csv_cell(settings: CsvSettings) -> Callable[[str], str]:
    """Return the function that writes a name as a CSV record that reads back as the same name."""
    separator, quote = settings.field_separator, settings.quote_character
    escape = settings.escape_character
    special = ("\n", "\r", *filter(None, (separator, quote)))

    def cell(name: str) -> str:
        if name.lower() == "null" and not settings.keep_null_string:
            raise _unwritable(name, "reads as null in CSV, without keepNullString in ms.csv")
        text = name if escape in {"", quote} else name.replace(escape, escape * 2)
        if not any(character in name for character in special):
            return text
        if not quote:
            raise _unwritable(name, "has a separator, and ms.csv has no quoteCharacter")
        return f"{quote}{text.replace(quote, quote * 2)}{quote}"

    return cell


def _unwritable(name: str, why: str) -> SourceContractError:
    return SourceContractError(f'the name "{shortened(ascii(name)[1:-1])}" {why}', _RENAME)


class _Listing(ReadStream):
    """Pieces of text as a stream of bytes."""

    def __init__(
        self, names: Iterable[str], pieces: Iterator[str], charset: str, location: str
    ) -> None:
        self._names = names
        self._pieces: Iterator[str] | None = pieces
        self._encoder = codecs.getincrementalencoder(charset)()
        self._location = location
        self._ready = memoryview(b"")

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, and consume only as many names as needed."""
        if size < 0:
            return self.readall()
        while not self._ready and self._pieces is not None and size:
            self._ready = memoryview(self._block())
        taken, self._ready = self._ready[:size], self._ready[size:]
        return bytes(taken)

    def close(self) -> None:
        """Close the generator of the names."""
        if not self.closed and hasattr(self._names, "close"):
            cast("Generator[str]", self._names).close()
        super().close()

    def _block(self) -> bytes:
        """Return the next names as bytes, empty at the end."""
        pieces = cast("Iterator[str]", self._pieces)
        text = []
        try:
            for piece in pieces:
                text.append(piece)
                if len(text) == _BLOCK_NAMES:
                    break
            else:
                self._pieces = None
            return self._encoder.encode("".join(text), self._pieces is None)
        except UnicodeEncodeError as error:
            name = error.object[error.start : error.end]
            raise SourceContractError(
                f"{self._location}: a name has characters that are not in {error.encoding}:"
                f" {name!a}",
                "Set ms.source.data.character.set=UTF-8, or rename the file.",
            ) from None
