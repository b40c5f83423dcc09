"""Decodes only the needed parts of one JSON response.

Rows stay raw text until Arrow reads them; look-ups decode only the value that they find. Numbers
are exact: see ``exact_number``.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from dil.extraction.json.scan import OversizeError
from dil.extraction.numbers import NumberText, exact_number
from dil.extraction.sizes import JSONPATH_FOUND_BYTES
from dil.model.json import JsonValue
from dil.model.path import MISSING, Missing, Path, Reach, Step, Steps
from dil.text.paths import compile_path, index, only, places

NULL = b"null"
# Fewer new objects are checked in 4 ms; to check all that a worker of Spark inherits takes 30 ms.
_MANY_OBJECTS = 20_000

_VALUE = msgspec.json.Decoder(msgspec.Raw)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_EXACT = msgspec.json.Decoder(float_hook=exact_number)
_TEXTS = msgspec.json.Decoder(float_hook=NumberText)
_SEARCHED = msgspec.json.Decoder(float_hook=float)  # filters of JSONPath cannot compare decimals


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch the cycle collector off inside the block: decoding makes many objects and no cycles.

    Measured: decoding takes 1.7 times as long with the collector. Threads may overlap: the first
    thread that ends switches the collector on again, which only costs the other threads time. At
    the end the new objects move to the oldest generation; otherwise the next collection would check
    each of them. This thaws frozen objects, so a process that has some does it only once a page
    makes many new objects.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not _has_frozen_objects() or gc.get_count()[0] > _MANY_OBJECTS:
                gc.freeze()
                gc.unfreeze()
                _has_frozen_objects.cache_clear()
            gc.enable()


@cache
def _has_frozen_objects() -> bool:
    """Return whether the process froze objects before it forked.

    Workers of Spark are such forks. Thawing costs memory, and 30 ms in the next full collection.

    The answer is kept until they thaw, because Python counts frozen objects one by one.
    """
    return gc.get_freeze_count() > 0


class Document:
    """A body of UTF-8 JSON text; other text raises msgspec.DecodeError or UnicodeError."""

    def __init__(self, text: bytes, *, is_lines: bool = False) -> None:
        if not text.isascii():
            text.decode()  # Raw rows are not checked again, so bad UTF-8 must be found here.
        self._root: object  # dict or list of Raw, or a Raw scalar
        if is_lines:
            self._root = decode_lines(text)
        else:
            # A container is opened at once: to find its end first would read the text twice.
            self._root = _opened(text if text[:1] in {b"{", b"["} else _VALUE.decode(text))

    @property
    def is_container(self) -> bool:
        """Return whether the root is an object or an array."""
        return isinstance(self._root, dict | list)

    @property
    def members(self) -> Mapping[str, msgspec.Raw]:
        """Return the undecoded members of a root that is an object, else an empty mapping."""
        return self._root if isinstance(self._root, dict) else {}

    def rows(self, path: str) -> Sequence[msgspec.Raw] | msgspec.Raw | Missing:
        """Return the payload at a path: the elements of an array, or the single value.

        If the path is JSONPath that may find several places, its matches are the payload. No match
        means no rows; MISSING is returned only if the steps before the search lead to nothing.
        """
        compiled = compile_path(path)
        return self.rows_at(compiled.steps, compiled)

    def rows_at(self, steps: Steps, path: Path) -> Sequence[msgspec.Raw] | msgspec.Raw | Missing:
        """Return the payload at ``path``; ``steps`` are its steps that remain from this root on."""
        found = self._found(steps)
        if isinstance(found, Missing):
            return found
        if path.reach is Reach.SEARCH:
            return list(self._found_within(path))
        takes_children = path.reach is Reach.CHILDREN
        if isinstance(found, msgspec.Raw) and (takes_children or not is_object(found)):
            found = _opened(found)
        if isinstance(found, dict) and takes_children:
            found = list(found.values())
        if isinstance(found, list | msgspec.Raw):
            return found
        return msgspec.Raw(msgspec.json.encode(found))

    def lookup(self, path: str) -> JsonValue | Missing:
        """Return the value at a path, MISSING if there is none.

        Raises:
            SourceContractError: the path is JSONPath and matches several unequal values.
        """
        compiled = compile_path(path)
        if compiled.is_place:
            return self.at(compiled.steps)
        return only(compiled, map(decode_exact, self.each(compiled)))

    def at(self, steps: Steps) -> JsonValue | Missing:
        """Return the value that steps lead to, MISSING if there is none."""
        found = self._found(steps)
        return found if isinstance(found, Missing) else decode_exact(msgspec.json.encode(found))

    def _found(self, steps: Steps) -> object:
        value = self._root
        for step in steps:
            value = _child(_opened(value), step)
        return value

    def _found_within(self, path: Path) -> Iterator[msgspec.Raw]:
        """Yield the matches of a path, up to a total size; nested matches count several times."""
        size = 0
        for found in self.each(path):
            size += len(memoryview(found))
            if size > JSONPATH_FOUND_BYTES:
                raise OversizeError(
                    f"the matches of ms.data.field have more than {JSONPATH_FOUND_BYTES:,} bytes"
                )
            yield found

    def each(self, path: Path) -> Iterator[msgspec.Raw]:
        """Yield the matches of a path, undecoded."""
        with collector_paused():
            root = _SEARCHED.decode(msgspec.json.encode(self._root))
        opened: dict[Steps, object] = {(): self._root}  # Each container is opened only once.

        def container(steps: Steps) -> object:
            if steps not in opened:
                opened[steps] = _opened(_child(container(steps[:-1]), steps[-1]))
            return opened[steps]

        for steps in places(path, root):
            found = _child(container(steps[:-1]), steps[-1]) if steps else self._root
            yield msgspec.Raw(msgspec.json.encode(found))


def _child(value: object, step: Step) -> object:
    """Return the values that a step selects in an opened container."""
    if isinstance(value, dict):
        return value.get(step, MISSING)
    if isinstance(value, list):
        position = index(step, len(value))
        return MISSING if position is None else value[position]
    return MISSING


def _opened(value: object) -> object:
    """Return the text of a container as a dict or list of Raw, one level deep.

    Other values are returned unchanged.
    """
    if not isinstance(value, msgspec.Raw | bytes):
        return value
    first = bytes(memoryview(value)[:1])
    if first == b"{":
        return _MEMBERS.decode(value)
    return _ELEMENTS.decode(value) if first == b"[" else value


def decode_elements(text: bytes, begin: int = 0) -> list[msgspec.Raw]:
    """Return the elements of an array that is given without its brackets."""
    del begin
    return _ELEMENTS.decode(b"[%b]" % text)


def decode_lines(text: bytes, begin: int = 0) -> list[msgspec.Raw]:
    """Return the value of each line that is not blank.

    Raises:
        msgspec.DecodeError: a line is no JSON; the message names the byte at which the line
            begins, counted from ``begin`` for the first byte of ``text``.
    """
    values: list[msgspec.Raw] = []
    for line in text.split(b"\n"):
        if line and not line.isspace():
            try:
                values.append(_VALUE.decode(line))
            except msgspec.DecodeError as error:
                raise msgspec.DecodeError(
                    f"{error}, in the line that begins at byte {begin}"
                ) from None
        begin += len(line) + 1
    return values


def is_null(value: msgspec.Raw) -> bool:
    """Return whether a raw value is JSON null."""
    return bytes(value) == NULL


def is_object(value: msgspec.Raw) -> bool:
    """Return whether a raw value is a JSON object."""
    return bytes(memoryview(value)[:1]) == b"{"


def decode_exact(text: bytes | msgspec.Raw) -> JsonValue:
    """Return one JSON value, decoded; fractions become numbers by ``exact_number``."""
    value: JsonValue = _EXACT.decode(text)
    return value


def decode_rows(rows: Sequence[msgspec.Raw], *, texts: bool = False) -> list[dict[str, Any]]:
    """Return raw rows, decoded; if ``texts`` is true, fractions stay text (NumberText)."""
    decoder = _TEXTS if texts else _EXACT
    decoded: list[dict[str, Any]] = decoder.decode(b"[" + b",".join(rows) + b"]")
    return decoded


def member_names(rows: Sequence[msgspec.Raw]) -> list[str]:
    """Return the names of the members of raw rows, each once, without decoding values.

    Raises:
        msgspec.ValidationError: a row is no object.
    """
    objects = _OBJECTS.decode(b"[" + b",".join(rows) + b"]")
    return list(dict.fromkeys(chain.from_iterable(objects)))
