r"""Masks secrets that escapes hide: JSON, HTML, percent, base64, hex, letter case, nested.

Servers and libraries quote received data in forms of their own: PHP writes ``\/``, a page
``&amp;``, a proxy encodes twice, a database doubles quotes, a mail has ``=5A``, a program prints
bytes as numbers. Escapes of a text are undone layer by layer, and a secret that appears is masked
in its place. If no pattern finds the place, the whole text is withheld: no message is better than a
message with a secret.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import re
import sys
from collections.abc import Iterable, Iterator
from html.entities import codepoint2name
from urllib.parse import unquote

from dil.model.secret import MASK

WITHHELD = f"{MASK} (a text that is not shown: it holds a secret in another form)"

# Shorter texts occur by chance in decoded escapes.
_SHORTEST = 4
# From this length on, letter case is ignored.
_FOLDED = 8
# Shorter pieces of base64 occur by chance.
_MIN_FRAGMENT = 6
# A piece of which so many first characters are nowhere in a text is not in the text.
_PREFIX = 3
# Beginnings of a secret before a cut are masked from this length on.
_MIN_BEGINNING = 6
_LAYERS = 6
_LARGEST_BYTE = 255
_BACKSLASHED = re.compile(
    r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2}|0(?![0-7]))|(.))",
    re.DOTALL,
)
_PERCENT_U = re.compile(r"%(?:25)*u([0-9a-fA-F]{4})")
# Python drops escapes of characters that HTML does not allow.
_HTML_CODE = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,6})|([0-9]{1,7}));?")
# Quoted-printable (RFC 2045 section 6.7): a byte, and a soft line break.
_EQUALS = re.compile(r"=(?:([0-9A-Fa-f]{2})|\r?\n)")
_DOUBLED = re.compile(r"''|\"\"")
# A folded line continues after blanks.
_FOLDS = re.compile(r"[\r\n]+[ \t]*")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
# Bytes of UTF-8 that were taken for characters.
_BYTES = re.compile("[\x80-\xff]{2,}")
_SEPARATORS = re.compile(r"\\x|0x|[\s:\-,;]")
# Four numbers of a list, and the text between them.
_NUMBERS = re.compile(r"(?:[0-9]{1,3}[\s,;]{1,3}){3}[0-9]")
_BETWEEN_NUMBERS = re.compile(r"[^0-9]+")
# A private character that no search looks for.
_BETWEEN_LAYERS = "\ue0d3"
_BLANKS = re.compile(r"\s+")
_CUT = re.compile(r"\.\.\.|…|\Z")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def without_encoded(text: str, secrets: Iterable[str]) -> str:
    """Return a text with these secrets masked in every form; ``WITHHELD`` if that is impossible.

    Args:
        text: A text, which may also have the secrets in plain form.
        secrets: The secrets; secrets of less than four characters are not looked for.
    """
    known = [secret for secret in secrets if len(secret) >= _SHORTEST]
    found = _found_in(text, known)
    if not found:
        return text
    for secret in sorted(found, key=len, reverse=True):
        text = _pattern(secret).sub(MASK, text)
        if _found_in(text, [secret]):
            text = _without_base64(text, secret)
    return WITHHELD if _found_in(text, found) else text


def _without_base64(text: str, secret: str) -> str:
    # Most pieces do not even begin in the text, and a pattern of all takes a second to compile.
    begun = tuple(
        each for each in _fragments(secret) if _encoded_pattern((each[:_PREFIX],)).search(text)
    )
    return _encoded_pattern(begun).sub(MASK, text) if begun else text


def without_beginnings(text: str, forms: Iterable[str]) -> str:
    """Return a text with beginnings of secrets masked if a cut, such as ``...``, follows them.

    Args:
        text: The text; its end counts as a cut, too.
        forms: The secrets, and their other masked forms.
    """
    long = [form for form in forms if len(form) >= _FOLDED]
    begins = {form[:_MIN_BEGINNING] for form in long}
    # Most texts have no beginning of a secret.
    if not begins or not any(text[at : at + _MIN_BEGINNING] in begins for at in range(len(text))):
        return text
    parts, begin = [], 0
    for cut in _CUT.finditer(text):
        part = text[begin : cut.start()]
        size = max((_cut_size(part, form) for form in long), default=0)
        parts += [part[: len(part) - size] + MASK if size else part, cut[0]]
        begin = cut.end()
    return "".join(parts)


def _cut_size(part: str, form: str) -> int:
    """Return how many first characters of a form are at the end of a part; 0 for too few."""
    if part.find(form[:_MIN_BEGINNING], max(len(part) - len(form), 0)) < 0:
        return 0
    for size in range(min(len(form) - 1, len(part)), _MIN_BEGINNING - 1, -1):
        if part.endswith(form[:size]):
            return size
    return 0


def _found_in(text: str, secrets: Iterable[str]) -> list[str]:
    """Return the secrets of which a form is in the text, or in what its escapes hide."""
    # All layers as one text: a search through each of them for each form would take much longer.
    layers = _BETWEEN_LAYERS.join(dict.fromkeys(_layers(text)))
    folded = layers.casefold()
    unfolded = _FOLDS.sub("", folded) if "\n" in layers or "\r" in layers else ""
    squeezed = _BLANKS.sub("", layers)
    small = squeezed.casefold()
    numbers = f",{_BETWEEN_NUMBERS.sub(',', layers)}," if _NUMBERS.search(layers) else ""
    searched = (
        layers,
        folded + unfolded,
        squeezed,
        small,
        _SEPARATORS.sub("", small),
        numbers,
    )
    return [
        secret
        for secret in secrets
        if any(
            needle in found
            for needles, found in zip(_needles(secret), searched, strict=True)
            if found
            for needle in needles
        )
    ]


@functools.lru_cache(maxsize=1024)
def _needles(secret: str) -> tuple[tuple[str, ...], ...]:
    """Return the forms of a secret of each kind that ``_found_in`` searches for.

    The kinds are: unchanged, in small letters, as base64 and base32 without blanks, as hex digits
    and as decimal numbers.
    """
    forms = tuple(dict.fromkeys((secret, _meant(secret))))
    folded = tuple(form.casefold() for form in forms) if len(secret) >= _FOLDED else ()
    folded = tuple(dict.fromkeys((*folded, *(_FOLDS.sub("", form) for form in folded))))
    raws = _raws(secret)
    digits = tuple(raw.hex() for raw in raws)
    numbers = tuple(f",{','.join(map(str, raw))}," for raw in raws)
    return (forms, folded, _fragments(secret), _base32(secret), digits, numbers)


@functools.lru_cache(maxsize=256)
def _raws(secret: str) -> tuple[bytes, ...]:
    """Return the bytes of a secret in UTF-8 and in UTF-16, as Windows and Java have them."""
    encodings = ("utf-8", "utf-16-le", "utf-16-be")
    return tuple(dict.fromkeys(secret.encode(each, errors="replace") for each in encodings))


def _base32(secret: str) -> tuple[str, ...]:
    """Return the base32 of a secret at each of five offsets, in small letters."""
    raw = secret.encode(errors="replace")
    found = []
    for offset in range(5):
        text = base64.b32encode(b"\0" * offset + raw).decode().casefold()
        # Five bits a character; only characters that do not depend on neighbours.
        piece = text[-(-offset * 8 // 5) : (offset + len(raw)) * 8 // 5]
        found += [piece] if len(piece) >= _MIN_FRAGMENT else []
    return tuple(found)


def _layers(text: str) -> Iterator[str]:
    """Yield a text, and the text after each layer of escapes that is undone."""
    yield text
    yield from _variants(text)
    for _ in range(_LAYERS):
        *halfway, meant = (text, *_meanings(text))
        yield from halfway[1:]
        if meant == text:
            meant = _decoded(text)
        if not meant:
            return
        yield meant
        yield _BYTES.sub(_as_utf8, meant)
        yield from _variants(meant)
        text = meant


def _variants(text: str) -> Iterator[str]:
    """Yield other readings of a text, in which rarely used escape characters count."""
    if "+" in text:
        yield text.replace("+", " ")
    if "\0" in text:  # UTF-16
        yield text.replace("\0", "")
    if "\\" in text:
        yield text.replace("\\", "")
    if "=" in text:
        found = _EQUALS.sub(_byte, text)
        yield _BYTES.sub(_as_utf8, found)
    if "''" in text or '""' in text:
        yield _DOUBLED.sub(lambda quotes: quotes[0][0], text)


def _meant(text: str) -> str:
    """Return a text with one layer of escapes undone."""
    *_, meant = (text, *_meanings(text))
    return meant


def _meanings(text: str) -> Iterator[str]:
    """Yield a text with one layer of escapes undone, kind by kind.

    The secret may appear after any of these steps: a backslash of its own is no escape, so the next
    step would destroy it.
    """
    if "%" in text:
        text = _PERCENT_U.sub(lambda found: chr(int(found[1], 16)), text)
        text = unquote(text, errors="replace")
        yield text
    if "&" in text:
        text = html.unescape(_HTML_CODE.sub(_html_character, text))
        yield text
    if "\\" in text:
        text = _BACKSLASHED.sub(_character, text)
        yield text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _as_utf8(found: re.Match[str]) -> str:
    return found[0].encode("latin-1").decode(errors="replace")


def _decoded(text: str) -> str:
    """Return the decoded base64 and hex of a text, in lines; empty without readable text."""
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
    if found[5]:
        return chr(int(found[5], 8))
    code = next(filter(None, found.group(1, 2, 3, 4)), "")
    if code:
        return chr(min(int(code, 16), sys.maxunicode))
    return _CONTROLS.get(found[6], found[6])


def _html_character(found: re.Match[str]) -> str:
    code = int(found[1], 16) if found[1] else int(found[2])
    is_of_windows = 0x80 <= code < 0xA0  # noqa: PLR2004 - HTML takes these for another set
    return found[0] if is_of_windows or not 0 < code <= sys.maxunicode else chr(code)


def _byte(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else ""


@functools.lru_cache(maxsize=256)
def _fragments(secret: str) -> tuple[str, ...]:
    """Return the pieces of a secret in base64, once or twice encoded."""
    raw = secret.encode(errors="replace")
    more = (base64.b64encode(raw), *_raws(secret)[1:])
    return tuple(dict.fromkeys(piece for each in (raw, *more) for piece in base64_pieces(each)))


def base64_pieces(raw: bytes) -> Iterator[str]:
    """Yield the base64 of bytes for each of the three offsets that they may have in a longer text.

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
    """Return a pattern that finds a secret in each form but base64, also with mixed escapes."""
    is_folded = len(secret) >= _FOLDED
    filler = r"(?:\x00|\\+x00|\\+u0000|=?\\*[\r\n]+[ \t]*)?" if is_folded else ""
    plain = filler.join(_alternatives(each, is_folded=is_folded) for each in secret)
    raws = _raws(secret)
    hexadecimal = "|".join(
        r"(?i:" + r"[\s:\-,;]{0,2}".join(rf"(?:\\x|0x)?{each:02x}" for each in raw) + ")"
        for raw in raws
    )
    numbers = "|".join(r"(?<!\d)" + r"[\s,;]{1,3}".join(map(str, raw)) + r"(?!\d)" for raw in raws)
    base32 = (
        r"(?i:" + r"\s*".join(fragment) + r")[A-Za-z2-7]?=*"
        for fragment in sorted(_base32(secret), key=len, reverse=True)
    )
    return re.compile("|".join((plain, hexadecimal, numbers, *base32)))


@functools.lru_cache(maxsize=1024)
def _encoded_pattern(fragments: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds pieces of base64, also with escapes and blanks in them."""
    return re.compile(
        "|".join(
            r"\s*".join(_alternatives(each, is_folded=False) for each in fragment)
            + r"(?:=|%3[dD])*"
            for fragment in sorted(fragments, key=len, reverse=True)
        )
    )


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
    yield rf"\\+(?:u\{{0*(?i:{code:x})\}}|U(?i:{code:08x}))"
    if code <= _LARGEST_BYTE:
        yield rf"\\+(?:x(?i:{code:02x})|{code:03o})"
    if character in "\"'":
        yield character * 2
    yield "".join(rf"%(?:25)*u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    yield "".join(rf"={byte:02X}" for byte in character.encode(errors="replace"))
    name = f"|{codepoint2name[code]};" if code in codepoint2name else ""
    name += {"/": "|sol;", "'": "|apos;", "+": "|plus;", "=": "|equals;"}.get(character, "")
    yield rf"&(?:amp;)*(?:#0*{code};?|#[xX]0*(?i:{code:x});?{name})"
    yield "".join(rf"%(?:25)*(?i:{byte:02x})" for byte in character.encode(errors="replace"))
    if character in "\n\r\t\b\f":
        yield rf"\\+{dict(zip(_CONTROLS.values(), _CONTROLS, strict=True))[character]}"
    if character == " ":
        yield r"\+"
