"""PGP decryption and encryption through GnuPG, with the names and parameters of LinkedIn's DIL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, ClassVar, cast

from dil.extraction.preprocessing.decoded import cut, garbage, not_of
from dil.extraction.preprocessing.gpg_process import GpgHome, GpgStream
from dil.extraction.streams import ReadStream
from dil.spi.preprocessor import Parameters, Preprocessor, PreprocessorContext, without_suffix

_KEY_ID = re.compile(r"(?:0x)?(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{40})")
_CIPHERS = (
    "IDEA", "3DES", "CAST5", "BLOWFISH", "AES", "AES192", "AES256", "TWOFISH", "CAMELLIA128",
    "CAMELLIA192", "CAMELLIA256",
)  # fmt: skip
_SHARED = {
    "action": "encrypt or decrypt: what the name GpgProcessor means.",
    "keystore_path": "Key file: secret keys to decrypt, public keys to encrypt. A relative path"
    " starts at the folder of the job file.",
    "keystore_password": "Pass phrase, of the secret key or, without key file, of the message.",
}
_BEGIN = b"-----BEGIN PGP "
_END = b"\n-----END PGP MESSAGE-----"


class GpgDecryptProcessor(Preprocessor):
    """Decrypts a PGP message; the message itself must prove its integrity."""

    parameters: ClassVar[Mapping[str, str]] = {
        **_SHARED,
        "key_name": "Not used to decrypt: the message names the key that it needs.",
        "cipher": "Not used to decrypt: the message names its cipher.",
    }

    def __init__(self, context: PreprocessorContext) -> None:
        super().__init__(context)
        self._home: GpgHome | None = None

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Return the problems of the parameters."""
        return _unlocking_problems(parameters)

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name without the ending of the format."""
        return without_suffix(name, {".gpg": "", ".pgp": ""})

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the decrypted stream.

        Raises:
            ConfigError: GnuPG or the key file is missing.
        """
        if self._home is None:
            self._home = _home(self.context)
        command = self._home.command("--decrypt")
        password = self.context.text("keystore_password")
        message = cast("BinaryIO", WatchedArmor(stream))
        return cast("BinaryIO", GpgStream(message, command, password, "DECRYPTION_OKAY"))

    def close(self) -> None:
        """Delete the key ring."""
        if self._home is not None:
            self._home.close()


class GpgEncryptProcessor(Preprocessor):
    """Encrypts bytes into a PGP message, for one public key or with a pass phrase."""

    is_output: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, str]] = {
        **_SHARED,
        "key_name": "Key id, 8, 16 or 40 hexadecimal digits, of the public key to encrypt for.",
        "cipher": "Symmetric cipher; CAST5 by default, AES256 is a better choice.",
    }

    def __init__(self, context: PreprocessorContext) -> None:
        super().__init__(context)
        self._home: GpgHome | None = None

    @classmethod
    def check(cls, parameters: Parameters) -> Iterable[str]:
        """Yield the problems of the parameters."""
        yield from _unlocking_problems(parameters)
        key = str(parameters.get("key_name", ""))
        if parameters.get("keystore_path") and not _KEY_ID.fullmatch(key):
            yield "key_name has to be the id of a key in keystore_path, 8, 16 or 40 hex digits"
        cipher = str(parameters.get("cipher", "CAST5"))
        if cipher.upper() not in _CIPHERS:
            yield f'cipher is "{cipher}"; known: {", ".join(_CIPHERS)}'

    @classmethod
    def file_name(cls, name: str) -> str:
        """Return the name with the ending of the format."""
        return f"{name}.gpg"

    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return the encrypted stream.

        Raises:
            ConfigError: GnuPG or the key file is missing.
        """
        if self._home is None:
            self._home = _home(self.context)
        cipher = ["--cipher-algo", self.context.text("cipher", "CAST5").upper()]
        key = self.context.text("key_name")
        if self.context.text("keystore_path"):
            # The owner of the job file trusts the key that it names.
            mode = ["--trust-model", "always", "--recipient", key, "--encrypt"]
        else:
            mode = ["--symmetric"]
        command = self._home.command(*cipher, *mode)
        password = self.context.text("keystore_password")
        return cast("BinaryIO", GpgStream(stream, command, password, "END_ENCRYPTION"))

    def close(self) -> None:
        """Delete the key ring."""
        if self._home is not None:
            self._home.close()


def _unlocking_problems(parameters: Parameters) -> Iterator[str]:
    # A plan needs no secrets: an empty Secret stands for a secret that could not be read, and
    # counts as given.
    if not any(parameters.get(name, "") != "" for name in ("keystore_path", "keystore_password")):
        yield "neither keystore_path nor keystore_password is given"


def _home(context: PreprocessorContext) -> GpgHome:
    """Return a new home with the keys of the job's key file."""
    home = GpgHome()
    path = context.text("keystore_path")
    try:
        if path:
            home.take_keys(path)
    except BaseException:
        home.close()
        raise
    return home


class WatchedArmor(ReadStream):
    """Passes on a PGP message; an armored message must be whole. Closing it closes the source.

    GnuPG would drop text around an armored message, and accept a cut one. Source: RFC 9580, 6.2.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._tail = b""
        self._is_armored: bool | None = None
        self._has_ended = False

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest.

        Raises:
            SourceContractError: an armored message has no end, or other text than blanks around it.
        """
        if size < 0:
            return self.readall()
        if size == 0:
            return b""
        data = self._source.read(size)
        if self._is_armored is None:
            self._look_at_begin(data)
        if self._is_armored:
            self._look_for_end(data)
        return data

    def close(self) -> None:
        """Close the stream beneath."""
        if not self.closed:
            super().close()
            self._source.close()

    def _look_at_begin(self, data: bytes) -> None:
        begin = (self._tail + data).lstrip()
        if data and _BEGIN.startswith(begin[: len(_BEGIN)]) and len(begin) < len(_BEGIN):
            self._tail = begin
            return
        self._is_armored = begin.startswith(_BEGIN)
        # All packets of a message in binary form begin with this bit (4.2).
        if begin and not self._is_armored and not begin[0] & 0x80:
            raise not_of("PGP", begin[:1024])

    def _look_for_end(self, data: bytes) -> None:
        if not data and not self._has_ended:
            raise cut("PGP")
        behind = data
        if not self._has_ended:
            text = self._tail + data
            at = text.find(_END)
            if at < 0:
                self._tail = text[1 - len(_END) :]
                return
            self._has_ended = True
            behind = text[at + len(_END) :]
        if behind.strip():
            raise garbage("PGP")
