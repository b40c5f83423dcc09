"""Our own words, which a secret may equal by chance: names of properties, phrases of advice.

If a password is the word ``password``, our advice with that word reveals nothing. A mask there
would spoil the advice and show what the secret is. So our own words stay when secrets that are a
single word are masked. All other text is masked as usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Only a single word of at most this length may be a word of ours.
_WORD = re.compile(r"[A-Za-z]{1,16}", re.ASCII)
# Whole names of properties and options; a test compares them with the reference.
NAMES = frozenset(
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
_OURS = re.compile(
    rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(NAMES, key=len, reverse=True)))})(?![\w]|\.\w)"
    rf"|(?<!\w)(?:{'|'.join(_PHRASES)})(?!\w)"
)
# Private characters around the number of a word that was put aside; no text of ours has them.
_LEFT, _RIGHT = "\ue0d1", "\ue0d2"
_ASIDE = re.compile(f"{_LEFT}([0-9]+){_RIGHT}")


def is_word(secret: str) -> bool:
    """Return whether a secret is a single word, as our own texts have them."""
    return _WORD.fullmatch(secret) is not None


def outside_own_words(text: str, mask: Callable[[str], str]) -> str:
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
