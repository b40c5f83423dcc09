"""Masks secrets in all text that leaves the process: logs, reports, failures, progress."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from dil.model.secret import MASK, Secret, SecretUrl
from dil.observe.encoded_secrets import base64_pieces, without_beginnings, without_encoded
from dil.secrets import learned

if TYPE_CHECKING:
    from dil.model.job import Job

# Addresses of databases: an error must be able to name the server and the user. The user's name is
# often also the name of the database and of other things.
_ADDRESSES = ("state.store.db.url", "ms.warehouse.url", "ms.iceberg.catalog.uri")
_PRIVATE_KEY = "source.conn.private.key"
_SHOWN = frozenset({*_ADDRESSES, "state.store.db.user", "ms.warehouse.user"})

# Shorter texts occur in ordinary words; they are masked only as whole words.
_SHORT = 4
# A line of a private key or certificate is secret, too, except its first and last line.
_MIN_KEY_LINE = 16

# The value of a header extends to the end of its line, with its blanks and separators.
_HEADER = re.compile(
    r"""(?ix)
    (?P<head> \b (?: (?:proxy-)? authorization | (?:set-)? cookie ) (?: \\? ["'] )? \s* [:=] \s* )
    (?: "[^"\r\n]*" | '[^'\r\n]*' | [^\s"'][^\r\n]* )
    """
)
_KEY_HEADER = re.compile(
    r"""(?ix)
    (?P<head> \b (?: x-auth-token | x-amz-security-token
                    | (?:x-)? (?:api|access|auth) [-_]? (?:key|token) )
              (?: \\? ["'] )? \s* [:=] \s* )
    (?: "[^"\r\n]*" | '[^'\r\n]*' | [^\s"'&,;<>\#]+ )
    """
)
_QUERY = re.compile(
    r"""(?ix)
    (?P<head> [?&;] (?: access_token | refresh_token | token | api_?key | key
              | (?:ssl)?password | passwd | pwd | secret | client_secret | sig
              | x-amz-signature | x-amz-credential | x-amz-security-token ) = )
    [^&;\s"'<>#]+
    """
)
_USER_INFO = re.compile(r"(?P<head>://[^/\s:@\"']*:)[^/\s@\"']+(?=@)")
_BEARER = re.compile(r"(?i)(?P<head>\bbearer\s+)(?=\S*[0-9._=])[A-Za-z0-9._~+/=-]{8,}")
_LEAVES = (str, int, float, bytes, type(None))
_WELL_KNOWN = (_HEADER, _KEY_HEADER, _QUERY, _USER_INFO, _BEARER)

# Our own words, which a secret may equal by chance: names of properties, phrases of advice. If a
# password is the word "password", our advice with that word reveals nothing; a mask there would
# spoil the advice and show what the secret is. So they stay when secrets that are a single word, of
# at most this length, are masked.
_WORD = re.compile(r"[A-Za-z]{1,16}", re.ASCII)
# Whole names of properties and options; a test compares them with the reference.
OWN_NAMES = frozenset(
    {
        "encrypt.key.fs.uri", "encrypt.key.loc", "encrypt.use.strong.encryptor",
        "extract.primary.key.fields", "job.name", "ms.authentication", "ms.aux.keys",
        "ms.http.request.headers", "ms.parameters", "ms.s3.list.max.keys", "ms.dedupe.keys",
        "ms.window.keys",
        "ms.secret.manager.class", "ms.secret.resolvers", "ms.session.key.field",
        "ms.sftp.host.key.check",
        "ms.sftp.host.key.fingerprint", "ms.sftp.private.key.passphrase", "ms.source.uri",
        "ms.warehouse.password", "ms.warehouse.url", "ms.warehouse.user", "num.encrypt.keys",
        "source.class", "source.conn.host", "source.conn.password", "source.conn.private.key",
        "source.conn.username", "state.store.db.password", "state.store.db.url",
        "state.store.db.user", "clientSecret", "refreshToken", "refreshTokenFile", "tokenUri",
    }
)  # fmt: skip
_PHRASES = (
    r"holds a secret in plain text", r"refers to a secret", r"--key FILE", r"in another form",
    r"dil secrets(?: (?:encrypt|decrypt|reencrypt))?", r"(?:the|no) master password",
    r"(?:a|the|no|new) refresh token", r"credentials of the source", r"user (?:and|or) password",
)  # fmt: skip
_LONGEST_FIRST = sorted(OWN_NAMES, key=len, reverse=True)
_OURS = re.compile(
    rf"(?<![\w.])(?:{'|'.join(map(re.escape, _LONGEST_FIRST))})(?![\w]|\.\w)"
    rf"|(?<!\w)(?:{'|'.join(_PHRASES)})(?!\w)"
)
# Private characters around the number of a word that was put aside; no text of ours has them.
_LEFT, _RIGHT = "\ue0d1", "\ue0d2"
_ASIDE = re.compile(f"{_LEFT}([0-9]+){_RIGHT}")


def secrets_of(job: Job) -> tuple[Secret, ...]:
    """Return every distinct secret of a job, from all properties and models.

    In addresses of databases, only the passwords are secrets.
    """
    urls = (job.properties.get(name) for name in _ADDRESSES)
    in_urls = [each for url in urls if isinstance(url, Secret) for each in _passwords(url)]
    return tuple(dict.fromkeys([*_walk(job), *in_urls]))


def _passwords(url: Secret) -> Iterator[Secret]:
    yield from map(Secret, _url_password(url.reveal().removeprefix("jdbc:")))


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """The texts of secrets, their searched forms, and the pattern of these forms."""

    texts: tuple[str, ...]
    forms: set[str]
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, texts: Iterable[str]) -> _Known:
        """Return the forms and the pattern for some secrets."""
        found = tuple(dict.fromkeys(texts))
        forms = {form for text in found for form in _forms(text)}
        if not forms:
            return cls(found, forms, None)
        # The longest first: a secret that begins with another secret must be masked as a whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        alternatives = (
            re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
            for form in ordered
        )
        return cls(found, forms, re.compile("|".join(alternatives)))

    def masked(self, text: str) -> str:
        """Return a text without any form of these secrets."""
        found = text if self.pattern is None else self.pattern.sub(MASK, text)
        return without_beginnings(without_encoded(found, self.texts), self.forms)


def redactor(secrets: Iterable[Secret]) -> Callable[[str], str]:
    """Return a function that masks the secrets in a text, however they were encoded.

    The function masks each secret in plain form, URL-encoded, base64-encoded (also as part of a
    longer text, such as ``user:password``) and JSON-escaped. It masks passwords in secret URLs,
    and single lines of keys. Without knowing a secret, it also masks values of credential headers
    and query parameters, bearer tokens, and passwords in URLs. It masks secrets below four
    characters only as whole words. It also masks secrets that this process learns later
    (``dil.secrets.learn``), such as fetched tokens.

    Then it undoes escapes of all kinds and searches the text again (``encoded_secrets``), and masks
    beginnings of secrets before a cut. A text that still has a secret is withheld. A secret that is
    a single word stays in places where our own texts have that word.
    """
    known = tuple(secrets)
    # Compiled again only when this process has learned another secret.
    compiled: list[tuple[tuple[Secret, ...], _Known, _Known]] = []

    def current() -> tuple[tuple[Secret, ...], _Known, _Known]:
        more = learned()
        if not compiled or compiled[0][0] is not more:
            texts = [part for secret in (*known, *more) for part in _parts(secret.reveal())]
            words = _Known.of(text for text in texts if _is_word(text))
            others = _Known.of(text for text in texts if not _is_word(text))
            compiled[:] = [(more, words, others)]
        return compiled[0]

    def redact(text: str) -> str:
        _, words, others = current()
        masked = others.masked(text)
        if words.texts:
            masked = _outside_own_words(masked, words.masked)
        for well_known in _WELL_KNOWN:
            masked = well_known.sub(rf"\g<head>{MASK}", masked)
        return masked

    return redact


def _is_word(secret: str) -> bool:
    """Return whether a secret is a single word, as our own texts have them."""
    return _WORD.fullmatch(secret) is not None


def _outside_own_words(text: str, mask: Callable[[str], str]) -> str:
    """Return a text that is masked everywhere except at our own words.

    ``mask`` must mask only secrets that are single words. A longer secret could begin inside our
    own words and end outside them, and would then not be found.
    """
    if _LEFT in text or _RIGHT in text:
        return mask(text)
    ours: list[str] = []

    def put_aside(found: re.Match[str]) -> str:
        ours.append(found[0])
        return f"{_LEFT}{len(ours) - 1}{_RIGHT}"

    masked = mask(_OURS.sub(put_aside, text))
    whole = _ASIDE.sub(lambda found: ours[int(found[1])], masked)
    return mask(text) if _LEFT in whole or _RIGHT in whole else whole


def _forms(text: str) -> Iterator[str]:
    yield text
    yield text.strip()
    yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    yield repr(text)[1:-1]
    for encoded in (quote(text), quote(text, safe=""), quote_plus(text)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), encoded)
    if len(text) >= _SHORT:
        raw = text.encode()
        wholes = [encode(raw).decode() for encode in (base64.b64encode, base64.urlsafe_b64encode)]
        padded = (form for whole in wholes for form in (whole, whole.rstrip("=")))
        # The base64 of the bytes alone, with and without padding, and inside of longer texts.
        for fragment in (*padded, *base64_pieces(raw)):
            yield from (fragment, quote(fragment, safe=""))


def _parts(secret: str) -> Iterator[str]:
    """Yield the secret, the password of a secret URL, and the lines of a key."""
    if not secret.strip():
        return
    yield secret
    yield from _url_password(secret)
    lines = secret.splitlines()
    if len(lines) > 1:
        for line in lines:
            text = line.strip()
            if len(text) >= _MIN_KEY_LINE and not text.startswith("-----"):
                yield text


def _url_password(secret: str) -> Iterator[str]:
    try:
        password = urlsplit(secret).password
    except ValueError:  # not a URL; any text may be a secret
        return
    if password:
        yield password
        yield unquote(password)


def _walk(value: object) -> Iterator[Secret]:
    if isinstance(value, SecretUrl):
        yield from _passwords(value)
    elif isinstance(value, Secret):
        if value:
            yield value
    else:
        for item in _children(value):
            if not isinstance(item, _LEAVES):  # most are leaves
                yield from _walk(item)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, tuple | list | set | frozenset):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, name) for name in _field_names(type(value))]
    if isinstance(value, Mapping):
        members = dict(value)
        key = members.get(_PRIVATE_KEY)
        if isinstance(key, Secret) and key.reveal().startswith(("/", "~")):
            del members[_PRIVATE_KEY]  # the path of the key's file, not its text
        return [item for name, item in members.items() if name not in _SHOWN]
    names = getattr(value, "__struct_fields__", ())  # of JSON properties
    return [getattr(value, name) for name in names]


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
