"""Parses a stream of XML into rows and the elements around them, one event at a time.

Source: XML 1.0 (fifth edition), Namespaces in XML 1.0; XML Schema 1.1 part 1, 2.6.2 (xsi:nil).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from xml.parsers import expat

from dil.errors import SourceContractError
from dil.extraction.sizes import XML_TAG_BYTES, too_long
from dil.model.path import Steps

XmlValue: TypeAlias = "str | dict[str, XmlValue] | list[XmlValue] | None"

_BLANKS = " \t\r\n"
_NIL = "http://www.w3.org/2001/XMLSchema-instance nil"
_MAX_DEPTH = 100
_MAX_AROUND = 100_000
_NO_MEMORY = 1  # XML_ERROR_NO_MEMORY of expat.h


@dataclass(slots=True)
class _Element:
    """An open element: its members so far, and pieces of its text."""

    name: str
    members: dict[str, XmlValue] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    is_nil: bool = False
    is_row: bool = False

    def add(self, name: str, value: XmlValue) -> None:
        """Add a child; a second child of the same name makes an array of both."""
        if name not in self.members:
            self.members[name] = value
            return
        before = self.members[name]
        if isinstance(before, list):
            before.append(value)
        else:
            self.members[name] = [before, value]

    def value(self, text_name: str) -> XmlValue:
        """Return an object; the text of an element without members; null for an empty element."""
        texts = self.texts
        text = (texts[0] if len(texts) == 1 else "".join(texts)).strip(_BLANKS)
        if not self.members:
            return None if self.is_nil else text or None
        if text:
            self.add(text_name, text)
        return self.members


class XmlDocument:
    """Parses bytes into rows: the elements at a path of names, which begins with the root's name.

    Elements that are no rows are kept for look-ups, up to 100,000 elements. If the path is empty,
    the root element is the only row. The caller feeds bytes and takes ``rows``. ``has_place`` is
    true if the document had a parent of rows. ``text_name`` names the text of an element that also
    has members. ``longest`` is the most bytes of a row or of another part that is kept whole.
    """

    def __init__(self, path: Steps, encoding: str | None, text_name: str, longest: int) -> None:
        self._text_name = text_name
        self._longest = longest
        self._fed = 0
        self._row_begin = 0
        self._kept_characters = 0
        self._has_defaults = False
        self._attribute_characters = 0
        self._path = path
        self._open: list[_Element] = []
        self._locals = _LocalNames()
        self._matched = 0
        self._row_depth = 0
        self._kept = 0
        self.rows: list[dict[str, XmlValue]] = []
        self._around: dict[str, XmlValue] = {}
        self.has_begun = False
        self.is_complete = False
        self.has_place = not self._path
        self._parser = expat.ParserCreate(encoding, " ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = _refuse_entity
        self._parser.SkippedEntityHandler = _refuse_skipped
        self._parser.AttlistDeclHandler = self._default

    def feed(self, data: bytes) -> None:
        """Parse more of the document; ``finish`` ends it.

        Raises:
            SourceContractError: the document is no XML, declares entities, is nested too deep, or
                has a row that is too long.
        """
        self.has_begun = self.has_begun or bool(data.strip())
        self._fed += len(data)
        self._parse(data, is_last=False)
        if self._row_depth and self._fed - self._row_begin > self._longest:
            raise too_long(f"a row has more than {self._longest:,} bytes")
        # The parser holds all bytes of an unfinished tag, and reads them again each time.
        longest = min(self._longest, XML_TAG_BYTES)
        if self._fed - self._parser.CurrentByteIndex > longest:
            raise too_long(f"a tag or a comment has more than {longest:,} bytes")

    def finish(self) -> None:
        """End the document; raise like ``feed``, and also if the document is incomplete."""
        self._parse(b"", is_last=True)
        self.is_complete = True

    def outside(self) -> Mapping[str, XmlValue]:
        """Return the elements around the rows, as an object whose one member is the root element.

        Raises:
            SourceContractError: there were too many elements to keep.
        """
        if self._kept > _MAX_AROUND:
            raise SourceContractError(
                f"more than {_MAX_AROUND:,} elements, or {self._longest:,} bytes, are outside of"
                " the rows",
                "Check ms.data.field; no value can be looked up in such a document.",
            )
        if not self._open:
            return self._around
        inner: _Element | None = None
        for element in reversed(self._open):
            if element.is_row:
                inner = None
                continue
            members = dict(element.members)
            outer = _Element(element.name, members, element.texts)
            if inner is not None:
                outer.add(inner.name, inner.value(self._text_name))
            inner = outer
        return {} if inner is None else {inner.name: inner.value(self._text_name)}

    def _parse(self, data: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(data, is_last)
        except expat.ExpatError as error:
            if error.code == _NO_MEMORY:
                raise MemoryError from None
            raise SourceContractError(
                f"the body is not XML: {expat.ErrorString(error.code)}, at line {error.lineno},"
                f" column {error.offset + 1}",
                "The source may have answered with another format, or the answer was cut off."
                " If its encoding is wrong, set ms.source.data.character.set.",
            ) from None
        except (LookupError, ValueError) as error:
            raise SourceContractError(
                f"the encoding that the document names cannot be read ({type(error).__name__})",
                "Set ms.source.data.character.set to its encoding.",
            ) from None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        element = _Element(self._locals[name])
        if attributes:
            element.is_nil = attributes.pop(_NIL, "") in {"true", "1"}
            for attribute, value in attributes.items():
                element.add(f"@{self._locals[attribute]}", value)
            if self._has_defaults or not self._row_depth:
                self._count_attributes(sum(map(len, attributes.values())))
        if len(self._open) - self._row_depth > _MAX_DEPTH:
            raise SourceContractError(
                f"elements are nested more than {_MAX_DEPTH} deep",
                "No table can hold such rows; check ms.data.field, or ask the source for a"
                " flatter form.",
            )
        if not self._row_depth:
            self._enter(element)
        self._open.append(element)

    def _enter(self, element: _Element) -> None:
        """Record that an element begins outside of rows; the element itself may be a row."""
        depth = len(self._open)
        if self._matched == depth and self._path[depth : depth + 1] == (element.name,):
            self._matched = depth + 1
        # The parent of the rows must exist; a parent without rows is no error.
        if self._matched >= max(1, len(self._path) - 1):
            self.has_place = True
        is_at_path = self._matched == len(self._path) == depth + 1
        element.is_row = is_at_path or not (self._path or depth)
        if element.is_row:
            self._row_depth = depth + 1
            self._row_begin = self._fed
        else:
            self._kept += 1

    def _end(self, _name: str) -> None:
        element = self._open.pop()
        if element.is_row:
            value = element.value(self._text_name)
            if not isinstance(value, dict):
                value = {self._text_name: value} if value else {}
            self.rows.append(value)
            self._row_depth = 0
        elif self._row_depth:
            self._open[-1].add(element.name, element.value(self._text_name))
            return
        elif self._kept <= _MAX_AROUND:
            self._keep(element)
        self._matched = min(self._matched, len(self._open))

    def _keep(self, element: _Element) -> None:
        if self._open:
            self._open[-1].add(element.name, element.value(self._text_name))
        else:
            self._around[element.name] = element.value(self._text_name)

    def _text(self, data: str) -> None:
        if self._row_depth:
            self._open[-1].texts.append(data)
        elif self._open and data.strip(_BLANKS) and self._kept <= _MAX_AROUND:
            self._kept += 1
            self._open[-1].texts.append(data)
            self._count_kept(len(data))

    def _default(self, *declared: object) -> None:
        self._has_defaults = self._has_defaults or declared[3] is not None

    def _count_attributes(self, characters: int) -> None:
        """Count the characters of attributes: a declared default recurs in each element."""
        self._attribute_characters += characters
        if self._attribute_characters > self._fed + self._longest:
            raise too_long(f"defaults of attributes become more than {self._longest:,} bytes")
        if not self._row_depth:
            self._count_kept(characters)

    def _count_kept(self, characters: int) -> None:
        """Count the characters kept around rows; beyond the limit nothing more is kept."""
        self._kept_characters += characters
        if self._kept_characters > self._longest:
            self._kept = _MAX_AROUND + 1


class _LocalNames(dict[str, str]):
    """Maps each name to the name without its namespace; makes each short name only once."""

    def __missing__(self, name: str) -> str:
        local = self[name] = name.rpartition(" ")[2]
        return local


def _refuse_entity(name: str, *rest: object) -> None:
    del rest
    raise SourceContractError(
        f'the document declares the entity "{name}"',
        "Write the document without entities: DIL reads none, because they can make a small"
        " document fill the memory.",
    )


def _refuse_skipped(name: str, is_parameter: bool) -> None:  # noqa: FBT001 - expat's signature
    if not is_parameter:
        raise SourceContractError(
            f'the document uses the entity "{name}", which it does not declare',
            "Use only the five entities of XML itself, and character references.",
        )
