"""Makes rows from names and values, as in LinkedIn's DIL (docs/preprocessors.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import BinaryIO, ClassVar, TypeVar, cast

import msgspec

from dil.errors import SourceContractError
from dil.extraction.excerpt import glimpse
from dil.extraction.json.document import Document
from dil.extraction.preprocessing.decoded import CHUNK, Pieces, PieceStream
from dil.extraction.sizes import AGGREGATED_BODY_BYTES
from dil.model.path import JsonPathError
from dil.model.secret import Secret
from dil.spi.preprocessor import Parameters, Preprocessor
from dil.text.paths import compile_path, index

T = TypeVar("T")
FILLED = "null"

_FIX = "Compare the parameters of the preprocessor with an answer of the source."


class AggregatedJsonProcessor(Preprocessor):
    """Turns ``{"h": [names], "d": [[values], ...]}`` into ``{"count": n, "results": [{...}]}``.

    Numbers keep their text. A body of more than 128 MiB is refused.
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "header": "Path of the array of column names; JSONPath may find the names themselves.",
        "data": "Path of the array of rows, each an array of values, or JSONPath that finds them.",
        "unwrap": "Path that leads to the object with names and rows.",
        "fields": "Paths, comma separated; their values are copied under the last name of each.",
        "short_rows": "`null` if a row may lack values at its end, which are then null.",
    }

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Yield the problems: a missing path, or a text that is no path."""
        for name in ("header", "data"):
            if not parameters.get(name):
                yield f"{name} is missing"
            yield from _bad_path(name, parameters.get(name, ""))
        yield from _bad_path("unwrap", parameters.get("unwrap", ""), is_single=True)
        fields = parameters.get("fields", "")
        for path in _listed(fields) if isinstance(fields, str) else ():
            yield from _bad_path("fields", path, is_single=True)
        if parameters.get("short_rows", FILLED) != FILLED:
            yield f'short_rows has another value than "{FILLED}": write that, or leave it out'

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return a stream of the new document with its rows."""
        return cast("BinaryIO", PieceStream(self._pieces(stream), stream))

    def _pieces(self, stream: BinaryIO) -> Pieces:
        root = _find(_document(stream), self.context.text("unwrap"))
        if root is None or _first(root) != b"{":
            raise SourceContractError("the body is no JSON object, so it has no rows", _FIX)
        rows = self._rows(root)
        names = self._names(root, is_needed=bool(rows))
        yield f'{{"count":{len(rows)},"results":['.encode()
        is_filled = self.context.text("short_rows") == FILLED
        piece = bytearray()
        for number, row in enumerate(rows):
            if number:
                piece += b","
            piece += _object(names, row, number, is_filled=is_filled)
            if len(piece) >= CHUNK:
                yield bytes(piece)
                piece.clear()
        yield bytes(piece) + b"]"
        for name, value in self._copied(root):
            yield b"," + name + b":" + bytes(value)
        yield b"}"

    def _rows(self, root: msgspec.Raw) -> list[msgspec.Raw]:
        found = _find(root, self.context.text("data"))
        if found is None or _first(found) == b"n":
            return []
        return _decoded(found, list[msgspec.Raw], f'"{self.context.text("data")}" is no array')

    def _names(self, root: msgspec.Raw, *, is_needed: bool) -> list[bytes]:
        path = self.context.text("header")
        found = _find(root, path)
        if found is None and not is_needed:
            return []
        what = f'"{path}" is no array of names'
        names = [] if found is None else _decoded(found, list[str], what)
        if not names and is_needed:
            raise SourceContractError(what, _FIX)
        if len(set(names)) < len(names):
            raise SourceContractError(f'"{path}" holds a name twice', _FIX)
        return [msgspec.json.encode(name) for name in names]

    def _copied(self, root: msgspec.Raw) -> Iterable[tuple[bytes, msgspec.Raw]]:
        for path in _listed(self.context.text("fields")):
            value = _find(root, path)
            if value is not None:
                yield msgspec.json.encode(compile_path(path).name), value


def _listed(paths: str) -> list[str]:
    return [path.strip() for path in paths.split(",") if path.strip()]


def _bad_path(name: str, text: str | Secret, *, is_single: bool = False) -> Iterable[str]:
    if not isinstance(text, str):
        return
    try:
        path = compile_path(text)
    except JsonPathError as error:
        yield f"{name} is no path: {error}"
        return
    if is_single and not path.is_place:
        yield f'{name} has "{text}", which may find several places; write a path to one place'
    elif name == "fields" and not path.name:
        yield f'{name} has "{text}", which ends without a name under which to copy the value'


def _document(stream: BinaryIO) -> msgspec.Raw:
    body = bytearray()
    while data := stream.read(CHUNK):
        body += data
        if len(body) > AGGREGATED_BODY_BYTES:
            raise SourceContractError(
                f"the body has more than {AGGREGATED_BODY_BYTES:,} bytes, which are too many to be"
                " turned into rows",
                "Request smaller pages.",
            )
    what = f'the body is no JSON; it begins: "{glimpse(bytes(body[:1024]))}"'
    text = body.removeprefix(b"\xef\xbb\xbf")
    try:
        return _decoded(text, msgspec.Raw, what)
    except SourceContractError:
        if _has_lines_of_json(text):
            raise SourceContractError(
                "the body has more than one JSON value, and the rows are made of one",
                "Ask the source for one value: InfluxDB, for example, sends several if the request"
                " has chunked=true.",
            ) from None
        raise


def _has_lines_of_json(text: bytearray) -> bool:
    try:
        return len(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode_lines(text)) > 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _object(names: list[bytes], row: msgspec.Raw, number: int, *, is_filled: bool) -> bytes:
    cells = _decoded(row, list[msgspec.Raw], f"row {number + 1} is no array")
    if len(cells) < len(names) and not is_filled:
        raise SourceContractError(
            f"row {number + 1} has {len(cells)} values, the header has {len(names)} names",
            f'{_FIX} If the source leaves out empty values at the end of a row, add "short_rows":'
            f' "{FILLED}".',
        )
    members = zip_longest(names, map(bytes, cells[: len(names)]), fillvalue=b"null")
    return b"{" + b",".join(name + b":" + cell for name, cell in members) + b"}"


def _find(root: msgspec.Raw, path: str) -> msgspec.Raw | None:
    """Return the value at a path (rule F12), None if there is none; a search returns an array."""
    compiled = compile_path(path)
    if not compiled.is_place:
        return msgspec.Raw(b"[%b]" % b",".join(Document(bytes(root)).each(compiled)))
    value: msgspec.Raw | None = root
    for step in compiled.steps:
        if value is None:
            return None
        begin = _first(value)
        if begin == b"{":
            members = _decoded(value, dict[str, msgspec.Raw], "")
            value = members.get(step) if isinstance(step, str) else None
        elif begin == b"[":
            items = _decoded(value, list[msgspec.Raw], "")
            position = index(step, len(items))
            value = None if position is None else items[position]
        else:
            return None
    return value


def _first(value: msgspec.Raw) -> bytes:
    """Return the first byte of a value that is no blank; this byte shows the value's type."""
    return bytes(memoryview(value)[:1])


def _decoded(data: msgspec.Raw | bytearray, kind: type[T], what: str) -> T:
    """Return JSON decoded as a type; values inside are decoded only as far as the type requires."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceContractError(what or "the body is damaged JSON", _FIX) from error
