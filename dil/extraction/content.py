"""Refuses contents that the job's format does not expect: by type, character set, first bytes.

See docs/http.md, docs/formats.md.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain

from dil.errors import SourceContractError
from dil.extraction.excerpt import glimpse, wide_charset_of
from dil.extraction.streams import read_up_to, stream_of
from dil.spi.connector import Response

# A note of extractors; if paging is strict, it fails the work unit.
NO_DATA_FIELD = (
    "a later page had no ms.data.field and counted as empty; it may have been an error document;"
    " if the source leaves the field out where there are no rows, set ms.data.field.optional=true"
)
NO_END = (
    "the source does not say where its answers end, by Content-Length or chunks, so rows may be"
    " missing if a connection broke off between two rows"
)
OMITTED_FIX = (
    "If the source leaves it out where there are no rows, set ms.data.field.optional=true."
)
_UTF8 = {"utf-8", "ascii"}
_HTML = ("text/html", "application/xhtml+xml")
_CSV = ("text/csv", "application/csv")
_HTML_FIX = "A login or error page? Check the address and the credentials."
_WEB_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_CHARSET = re.compile(r"""charset=["']?([\w.:-]{1,40})""", re.IGNORECASE | re.ASCII)
PACKED_MARK_BYTES = 10
_BEGINNINGS = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip", "gunzip"),
    (re.compile(rb"PK(?:\x03\x04|\x05\x06)"), "a zip archive", "zip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd", "zstd"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz", "xz"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bzip2", "bzip2"),
)


def refuse_other_types(response: Response, accepted: Collection[str], *, suffix: str = "") -> None:
    """Refuse a response whose media type is not accepted; a missing type is accepted.

    If ``suffix`` is ``+json``, for example, ``application/vnd.api+json`` is accepted too.

    Raises:
        SourceContractError: the type is not accepted; the body was closed.
    """
    kind = response.content_type
    if not response.checks_content_type or not kind or kind in accepted:
        return
    if suffix and kind.startswith("application/") and kind.endswith(suffix):
        return
    begin = b""
    if response.body is not None:
        with closing(response.body) as body:
            begin = body.read(1024)
    raise SourceContractError(
        f'{response.location}: the content type is {kind}; the body begins: "{glimpse(begin)}"',
        _fix(kind),
    )


def _fix(kind: str) -> str:
    """Return the advice for a media type that is not accepted."""
    if kind in _HTML:
        return _HTML_FIX
    accepted = f'If the type is right, write ms.http.response.type={{"Content-Type": "{kind}"}}'
    if kind.endswith(("/xml", "+xml")):
        return f"For XML write ms.extractor.class=xml. {accepted}"
    if kind in _CSV:
        return f"For CSV write ms.extractor.class=csv. {accepted}"
    return accepted


def refuse_web_page(response: Response, begin: bytes) -> None:
    """Refuse a web page that has no content type of one: as CSV it is a header without rows.

    Raises:
        SourceContractError: the body is a web page.
    """
    if response.checks_content_type and _WEB_PAGE.match(begin):
        raise SourceContractError(f'the body is a web page: "{glimpse(begin)}"', _HTML_FIX)


def notes_of_end(response: Response) -> tuple[str, ...]:
    """Return a note if a response could be cut off unnoticed; for formats without an end mark."""
    return () if response.has_end else (NO_END,)


def charset_advice(response: Response, begin: bytes = b"") -> str:
    """Return the advice for a body that is not text in the job's character set."""
    if wide := wide_charset_of(begin):
        return f"The body begins like {wide}: set ms.source.data.character.set={wide}."
    named = _CHARSET.search(response.header("Content-Type") or "")
    if named is None:
        return "Check ms.source.data.character.set."
    return f"Check ms.source.data.character.set; the answer's content type says {named[1]}."


def refuse_wide(response: Response, begin: bytes, charset: str) -> None:
    """Refuse a body that begins like UTF-16 or UTF-32 where the character set is a narrow one.

    Null characters between its letters are valid in the other set, too, and would be published.

    Raises:
        SourceContractError: one byte is a letter in ``charset``, and the body begins otherwise.
    """
    is_narrow = len("aa".encode(charset)) - len("a".encode(charset)) == 1  # without a mark
    if is_narrow and wide_charset_of(begin):
        raise SourceContractError(
            f"the body is not {charset} text", charset_advice(response, begin)
        )


def is_utf8(charset: str) -> bool:
    """Return whether all text in a character set is valid UTF-8 too."""
    return codecs.lookup(charset).name in _UTF8


def decoded_texts(chunks: Iterable[bytes], charset: str) -> Iterator[str]:
    """Yield the texts of chunks, without a byte order mark at the beginning.

    Raises:
        UnicodeDecodeError: the chunks are not in the character set; ``start`` counts from the first
            chunk on, and may be a few bytes too high.
    """
    decode = codecs.getincrementaldecoder(charset)().decode
    offset, has_begun = 0, False
    for chunk in chain(filter(None, chunks), (b"",)):
        try:
            text = decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            error.start += offset
            raise
        yield text if has_begun else text.removeprefix("\ufeff")
        has_begun = has_begun or bool(text)
        offset += len(chunk)


def refuse_packed(begin: bytes, place: str) -> None:
    """Refuse a body by its first ``PACKED_MARK_BYTES`` bytes; ``place`` begins the message.

    Raises:
        SourceContractError: the body begins like a packed file.
    """
    for beginning, what, preprocessor in _BEGINNINGS:
        if beginning.match(begin):
            raise SourceContractError(
                f"{place}the body is {what}, not text",
                f"Write ms.extract.preprocessors={preprocessor} to unpack it; if the job has other"
                f" preprocessors, add {preprocessor} at the right place.",
            )


def as_text(response: Response) -> Response:
    """Check that a body is not packed, and return the response with its body unread.

    Raises:
        SourceContractError: the body begins like a packed file; the body was closed.
    """
    body = response.body
    if body is None:
        return response
    begin = read_up_to(body, PACKED_MARK_BYTES)
    try:
        refuse_packed(begin, f"{response.location}: " if response.location else "")
    except SourceContractError:
        body.close()
        raise
    return replace(response, body=stream_of(begin, body))
