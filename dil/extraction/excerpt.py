"""Shortens texts of a source for messages, and masks everything that could be a secret."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from decimal import Decimal

from dil.extraction.numbers import NumberText
from dil.model.secret import MASK
from dil.secrets.masking import masked

_LIMIT = 200
_NULLS_OF_UTF_32 = {"x000": "UTF-32LE", "000x": "UTF-32BE"}
_FORM = 30
_GLIMPSE = 60
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufffd]+")
_LONG_WORD = re.compile(r"[A-Za-z0-9+/_=.~-]{20,}")
# Names of errors: REQUEST_LIMIT_EXCEEDED, unsupported_grant_type, rateLimitExceeded.
_NAME = re.compile(
    r"[A-Z]{2,15}(?:_[A-Z]{2,15})+|[a-z]{2,15}(?:_[a-z]{2,15})+"
    r"|[A-Za-z][a-z]{2,14}(?:[A-Z][a-z]{2,14})+"
)
_OF_ERRORS = re.compile(
    "limit|quota|exceed|error|fail|invalid|denied|expired|missing|required|grant|unsupported"
    "|unauthor|forbidden|not_?found|too_?many",
    re.IGNORECASE,
)
_DOUBLE, _SINGLE = r'"(?:[^"\\]|\\.)*', r"'(?:[^'\\]|\\.)*"
_NUMBER = "-?[0-9][0-9.eE+-]*"
# Some sources write single quotes. In words they are apostrophes, so a name must be before them.
_MEMBER = re.compile(
    rf"""("[^"\\]*"|'[^'\\]*')(\s*:\s*)(?:{_DOUBLE}"?|{_SINGLE}'?|{_NUMBER})"""
    rf"""|(\s*:\s*)(?:{_DOUBLE}"?|{_NUMBER})"""
)
# A number in an array, or a text that is no member's name; the cut may have left the text open.
_ITEM = re.compile(
    rf"""([\[,]\s*)(?:{_DOUBLE}(?:"(?!\s*:)|\\?$)|{_SINGLE}(?:'(?!\s*:)|\\?$)|{_NUMBER})"""
)
# Bodies that may be shown as an excerpt: HTML, and JSON objects.
_SHOWN = re.compile(r"<!doctype html|<html|\{|\[\s*\{", re.IGNORECASE)
# The text between and inside the tags of XML.
_CONTENT = re.compile(r"""<!\[CDATA\[.*|(>)[^<]*[^<\s][^<]*|(=\s*)(?:"[^"]*"?|'[^']*'?)""")
# The part of SOAP before the element that explains an error. The beginning of JSON stays, because
# without its name a value is not masked.
_TO_FAULT = re.compile(r"[\ufeff\s]*(?=<).*?(?=<(?:[\w.-]+:)?Fault\b)", re.DOTALL)
# Members in which answers explain errors for people (RFC 9457, RFC 6749 section 5.2).
_TELLING = re.compile(
    r"""["'](?:error|message|detail|title|reason|code|status|type|description)""", re.IGNORECASE
)


def excerpt(body: bytes, *, is_refusal: bool = False) -> str:
    """Return the beginning of a body, at most 200 characters of one line.

    The values of JSON members and the items of JSON arrays are masked, and so are words of 20 or
    more characters, which may be tokens. In the body of a refusal, the members that explain the
    error and the items of arrays are shown, and so are long words that are names of errors; of SOAP
    the fault is shown.
    """
    # Known secrets are masked first: the masks below, or the cut, could leave a part of a secret
    # that no mask recognizes.
    clean = masked(_decoded(body[: 16 * _LIMIT]))
    if is_refusal and (names := _TO_FAULT.match(clean)):
        clean = clean[names.end() :]
    text = _BLANKS.sub(" ", clean)[: 4 * _LIMIT].strip()
    if is_refusal:
        hidden = _LONG_WORD.sub(_masked_unless_name, _MEMBER.sub(_masked_unless_telling, text))
    else:
        without_members = _MEMBER.sub(_masked_member, text)
        if text.startswith(("{", "[")):
            without_members = _ITEM.sub(rf"\1{MASK}", without_members)
        hidden = _LONG_WORD.sub(MASK, without_members)
    return hidden if len(hidden) <= _LIMIT else hidden[: _LIMIT - 3] + "..."


def glimpse(body: bytes) -> str:
    r"""Return the part of an unexpected body that may be shown: one line without values of rows.

    For HTML and JSON objects it is an excerpt, for XML the names, and for other bodies the kinds of
    their characters, as in ``bracketed_form``.

    >>> glimpse(b"id,name\n7,Zoe"), glimpse(b'<a k="v">Zoe</a>')
    ('aa,aaaa 9,Aaa', '<a k=***>***</a>')
    """
    clean = masked(_decoded(body))
    text = _BLANKS.sub(" ", clean).lstrip("\ufeff ").rstrip()
    if _SHOWN.match(text):
        return excerpt(text.encode())
    if text.startswith("<"):
        return excerpt(_CONTENT.sub(_masked_content, text).encode())
    form = "".join(map(_form, text[:_GLIMPSE]))
    return f"{form}..." if len(text) > _GLIMPSE else form


def wide_charset_of(begin: bytes) -> str:
    r"""Return the character set of a text that begins like UTF-16 or UTF-32, else an empty text.

    >>> wide_charset_of(b"\xff\xfei\0"), wide_charset_of(b"i\0d\0"), wide_charset_of(b"\0i\0d")
    ('UTF-16', 'UTF-16LE', 'UTF-16BE')
    >>> wide_charset_of(b"\xff\xfe\0\0"), wide_charset_of(b"i\0\0\0"), wide_charset_of(b"id")
    ('UTF-32', 'UTF-32LE', '')
    """
    # The mark of UTF-32LE begins with that of UTF-16LE.
    if begin.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32"
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    nulls = "".join("x" if byte else "0" for byte in begin[:4])
    if nulls in _NULLS_OF_UTF_32:
        return _NULLS_OF_UTF_32[nulls]
    return {0: "UTF-16BE", 1: "UTF-16LE"}.get(nulls[:2].find("0"), "")


def _decoded(body: bytes) -> str:
    """Return the text of a body of any character set, as far as it can be recognized.

    Null characters between the characters of a value would hide it from the masks.
    """
    return body.decode(wide_charset_of(body) or "utf-8", "replace").replace("\0", "")


def _masked_content(match: re.Match[str]) -> str:
    return f"{match.group(1) or match.group(2) or ''}{MASK}"


def _masked_member(match: re.Match[str]) -> str:
    return f"{''.join(match.groups(''))}{MASK}"


def _masked_unless_telling(match: re.Match[str]) -> str:
    return match.group() if _TELLING.match(match.group()) else _masked_member(match)


def _masked_unless_name(match: re.Match[str]) -> str:
    word = match.group()
    return word if _NAME.fullmatch(word) and _OF_ERRORS.search(word) else MASK


def kind_of(value: object) -> str:
    """Return words for the type and size of a JSON value, without the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, NumberText | int | float | Decimal):
        return "a number"
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    if isinstance(value, Mapping):
        return f"an object of {len(value)} members"
    return "an array"


def bracketed_form(value: object) -> str:
    """Return the form of a text or number in brackets: the kinds of its characters.

    >>> bracketed_form("2020-13-01T0z"), bracketed_form("Zoé 7"), bracketed_form([1])
    (' ("9999-99-99A9a")', ' ("Aaa 9")', '')
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return ""
    text = str(value)
    form = "".join(_form(character) for character in text[:_FORM])
    return f' ("{form}{"..." if len(text) > _FORM else ""}")'


def _form(character: str) -> str:
    if character.isdigit():
        return "9"
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return character if character.isascii() and character.isprintable() else "?"
