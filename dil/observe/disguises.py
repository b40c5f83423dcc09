r"""Secrets that an escape hides: JSON, HTML, percent encodings, base64, hex, letter case, nested.

Servers and libraries quote what they were sent in forms of their own: PHP writes ``\/``, a page
``&amp;``, a proxy encodes twice. A text is searched by what it means: escapes are undone layer by
layer, and what is found is masked where it stands. Where no pattern reaches it, the whole text is
withheld: better no message than a secret.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html.entities import codepoint2name
from urllib.parse import unquote

from dil.model.secret import MASK

WITHHELD = f"{MASK} (a text that is not shown: it holds a secret in another form)"

# Shorter texts occur by chance in what escapes stand for.
_SHORTEST = 4
# From here on letter case counts for nothing.
_FOLDED = 8
# Shorter pieces of base64 occur by chance.
_MIN_FRAGMENT = 6
# Beginnings of a secret before a cut are masked from this length on.
_MIN_BEGINNING = 6
_LAYERS = 6
_LARGEST_BYTE = 255
_BACKSLASHED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
# Bytes of UTF-8 that were taken for characters.
_BYTES = re.compile("[\x80-\xff]{2,}")
_SEPARATORS = re.compile(r"\\x|0x|[\s:\-]")
_BLANKS = re.compile(r"\s+")
_CUT = re.compile(r"\.\.\.|…|\Z")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def without_disguised(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which these secrets stand in no form; ``WITHHELD`` where that cannot be.

    Args:
        text: May hold them as they are, too.
        secrets: Those below four characters are not looked for.
    """
    known = [secret for secret in secrets if len(secret) >= _SHORTEST]
    found = _found_in(text, known)
    if not found:
        return text
    for secret in sorted(found, key=len, reverse=True):
        text = _pattern(secret).sub(MASK, text)
    return WITHHELD if _found_in(text, found) else text


def without_beginnings(text: str, forms: Iterable[str]) -> str:
    """Return a text without the beginnings of secrets that were cut off, as ``...`` tells.

    Args:
        text: Its end counts as a cut as well.
        forms: The secrets, and what else of them is masked.
    """
    long = [form for form in forms if len(form) >= _FOLDED]
    if not long:
        return text
    parts, begin = [], 0
    for cut in _CUT.finditer(text):
        part = text[begin : cut.start()]
        size = max((_cut_size(part, form) for form in long), default=0)
        parts += [part[: len(part) - size] + MASK if size else part, cut[0]]
        begin = cut.end()
    return "".join(parts)


def _cut_size(part: str, form: str) -> int:
    """Return how many characters of a form, from its begin, a part ends with; 0 for too few."""
    if part.find(form[:_MIN_BEGINNING], max(len(part) - len(form), 0)) < 0:
        return 0
    for size in range(min(len(form) - 1, len(part)), _MIN_BEGINNING - 1, -1):
        if part.endswith(form[:size]):
            return size
    return 0


def _found_in(text: str, secrets: Iterable[str]) -> list[str]:
    layers = dict.fromkeys(_layers(text))
    folded = [layer.casefold() for layer in layers]
    squeezed = [_BLANKS.sub("", layer) for layer in layers]
    digits = [_SEPARATORS.sub("", layer) for layer in folded]
    return [
        secret
        for secret in secrets
        for needles in (_needles(secret),)
        if _is_any_in(needles.plain, layers)
        or _is_any_in(needles.folded, folded)
        or _is_any_in(needles.base64, squeezed)
        or _is_any_in(needles.hexadecimal, digits)
    ]


def _is_any_in(needles: Iterable[str], texts: Iterable[str]) -> bool:
    return any(needle in text for text in texts for needle in needles)


@dataclass(frozen=True, slots=True)
class _Needles:
    """What a secret is searched as: in texts, in folded texts, without blanks, in hex digits."""

    plain: tuple[str, ...]
    folded: tuple[str, ...]
    base64: tuple[str, ...]
    hexadecimal: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def _needles(secret: str) -> _Needles:
    forms = tuple(dict.fromkeys((secret, _meant(secret))))
    folded = tuple(form.casefold() for form in forms) if len(secret) >= _FOLDED else ()
    digits = (secret.encode(errors="replace").hex(),)
    return _Needles(forms, folded, _fragments(secret), digits)


def _layers(text: str) -> Iterator[str]:
    """Yield a text and what it means when its escapes are undone, again and again."""
    yield text
    if "+" in text:
        yield text.replace("+", " ")
    for _ in range(_LAYERS):
        *halfway, meant = (text, *_meanings(text))
        yield from halfway[1:]
        if meant == text:
            meant = _decoded(text)
        if not meant:
            return
        yield meant
        yield _BYTES.sub(_as_utf8, meant)
        if "+" in meant:
            yield meant.replace("+", " ")
        text = meant


def _meant(text: str) -> str:
    """Return a text with one layer of escapes undone."""
    *_, meant = (text, *_meanings(text))
    return meant


def _meanings(text: str) -> Iterator[str]:
    """Yield a text with one layer of escapes undone, each kind after the others.

    What stands between two kinds may be the secret: its own backslash is no escape.
    """
    if "%" in text:
        text = unquote(text, errors="replace")
        yield text
    if "&" in text:
        text = html.unescape(text)
        yield text
    if "\\" in text:
        text = _BACKSLASHED.sub(_character, text)
        yield text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _as_utf8(found: re.Match[str]) -> str:
    return found[0].encode("latin-1").decode(errors="replace")


def _decoded(text: str) -> str:
    """Return what stands in base64 or hex in a text, in lines; empty for nothing readable."""
    found = []
    runs = (*_ENCODED.findall(text), *_ENCODED.findall(_SEPARATORS.sub("", text)))
    for run in dict.fromkeys(runs):
        with contextlib.suppress(ValueError):
            if len(run) % 2 == 0:
                found.append(bytes.fromhex(run))
        with contextlib.suppress(ValueError):
            padded = run.rstrip("=") + "=" * (-len(run.rstrip("=")) % 4)
            found.append(base64.b64decode(padded.replace("-", "+").replace("_", "/")))
    texts = (each.decode(errors="replace") for each in found)
    return "\n".join(text for text in texts if "\ufffd" not in text)


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(found[3], found[3])


@functools.lru_cache(maxsize=256)
def _fragments(secret: str) -> tuple[str, ...]:
    """Return the pieces of a secret in base64, once or twice encoded."""
    raw = secret.encode(errors="replace")
    return tuple(dict.fromkeys((*base64_pieces(raw), *base64_pieces(base64.b64encode(raw)))))


def base64_pieces(raw: bytes) -> Iterator[str]:
    """Yield what base64 makes of the bytes at each of the three offsets they may stand at.

    Only characters that do not depend on neighbouring bytes are kept, so that a password is
    found inside the base64 of ``user:password``.
    """
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for offset in range(3):
            text = encode(b"\0" * offset + raw).decode()
            first = (0, 2, 3)[offset]
            last = len(text) - (0, 3, 2)[(offset + len(raw)) % 3]
            if last - first >= _MIN_FRAGMENT:
                yield text[first:last]


@functools.lru_cache(maxsize=256)
def _pattern(secret: str) -> re.Pattern[str]:
    """Return what finds a secret in each form, each character escaped in its own way."""
    is_folded = len(secret) >= _FOLDED
    plain = "".join(_alternatives(each, is_folded=is_folded) for each in secret)
    digits = (f"{byte:02x}" for byte in secret.encode(errors="replace"))
    hexadecimal = r"(?i:" + r"[\s:\-]?".join(rf"(?:\\x|0x)?{each}" for each in digits) + ")"
    encoded = (
        r"\s*".join(_alternatives(each, is_folded=False) for each in fragment) + r"(?:=|%3[dD])*"
        for fragment in sorted(_fragments(secret), key=len, reverse=True)
    )
    return re.compile("|".join((plain, hexadecimal, *encoded)))


def _alternatives(character: str, *, is_folded: bool) -> str:
    cases = {character}
    if is_folded:
        cases |= {each for each in (character.lower(), character.upper()) if len(each) == 1}
    forms = [form for each in sorted(cases) for form in _escapes(each)]
    return f"(?:{'|'.join(forms)})"


def _escapes(character: str) -> Iterator[str]:
    code = ord(character)
    yield rf"\\*{re.escape(character)}"
    units = character.encode("utf-16-be", "surrogatepass").hex()
    yield "".join(rf"\\+u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    if code <= _LARGEST_BYTE:
        yield rf"\\+x(?i:{code:02x})"
    name = f"|{codepoint2name[code]};" if code in codepoint2name else ""
    name += {"/": "|sol;", "'": "|apos;", "+": "|plus;", "=": "|equals;"}.get(character, "")
    yield rf"&(?:amp;)*(?:#0*{code};?|#[xX]0*(?i:{code:x});?{name})"
    yield "".join(rf"%(?:25)*(?i:{byte:02x})" for byte in character.encode(errors="replace"))
    if character in "\n\r\t\b\f":
        yield rf"\\+{dict(zip(_CONTROLS.values(), _CONTROLS, strict=True))[character]}"
    if character == " ":
        yield r"\+"
