"""Keeps one connection to an SFTP server, and opens it again after it broke.

``private_key`` reads the key with which a user logs in.
"""

from __future__ import annotations

import http.client
import io
import logging
import socket
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import paramiko

from connectors.sftp.address import SftpHost, default_server
from connectors.sftp.failures import translated_errors
from connectors.sftp.host_keys import HostKeyRules, KnownHost
from connectors.sftp.section import SftpSection
from dil.errors import AuthenticationError, ConfigError, SourceError, TransientSourceError
from dil.model.job import Job
from dil.model.secret import Secret
from dil.sections.source import SourceSection

# The library's log would repeat, with a stack trace, what our errors report.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_WINDOW = 16 * 1024 * 1024
_LOGIN_FIX = (
    "Check source.conn.username, source.conn.password and source.conn.private.key; the server's"
    " log names the refused one."
)
_PROXY_FIX = (
    "Check source.conn.use.proxy.url, and whether the proxy allows connections to this host."
)
_PRIVATE_KEY = "source.conn.private.key"
_BEGIN = "-----BEGIN"
_LONGEST_PATH = 250
_PUTTY = "PuTTY-User-Key-File"
_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


@dataclass(frozen=True, slots=True)
class SftpSettings:
    """The connector's view of a job; ``proxy`` is a URL, empty without a proxy.

    A ``timeout_s`` of None means to wait for ever.
    """

    job: Job
    default: SftpHost
    password: Secret | None
    private_key: Secret | None
    passphrase: Secret | None
    host_keys: HostKeyRules
    timeout_s: float | None
    proxy: str

    @classmethod
    def of(cls, job: Job) -> SftpSettings:
        """Return the settings of a parsed job."""
        properties = job.properties
        sftp, source = properties.section(SftpSection), properties.section(SourceSection)
        return cls(
            job,
            default_server(properties),
            password=job.source.password,
            private_key=sftp.private_key,
            passphrase=sftp.passphrase,
            host_keys=HostKeyRules(sftp.checks_host_key, sftp.known_hosts, sftp.fingerprint),
            timeout_s=sftp.timeout_ms / 1000 if sftp.timeout_ms else None,
            proxy=source.proxy,
        )


class _UnbufferedResponse(http.client.HTTPResponse):
    """Leaves everything behind the head of the proxy's answer in the socket.

    An SSH server sends before the client does: its first line may arrive together with that head.
    """

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp.close()
        self.fp = sock.makefile("rb", buffering=1)


class SftpConnection:
    """A server, and the connection to it if one is open."""

    def __init__(self, settings: SftpSettings, server: SftpHost) -> None:
        self._settings = settings
        self.server = server
        self._transport: paramiko.Transport | None = None
        self._client: paramiko.SFTPClient | None = None

    def client(self) -> paramiko.SFTPClient:
        """Return the open connection; open it first if there is none.

        Raises:
            TransientSourceError: the server cannot be reached.
            AuthenticationError: the server's host key is not known, or the server refuses the user.
            ConfigError: the file of known hosts or the private key cannot be read.
        """
        if self._client is not None and self._transport is not None:
            if self._transport.is_active():
                return self._client
            self.drop()
        with translated_errors(self.server.shown):
            self._client = self._opened()
        return self._client

    def drop(self) -> None:
        """Close the connection; the next use opens a new one."""
        transport, self._transport, self._client = self._transport, None, None
        if transport is not None:
            with suppress(OSError, EOFError, paramiko.SSHException):
                transport.close()
            transport.sock.close()

    def _opened(self) -> paramiko.SFTPClient:
        known = KnownHost(self._settings.host_keys, self.server)
        timeout = self._settings.timeout_s
        transport = self._transport = paramiko.Transport(self._socket())
        try:
            if timeout:
                transport.banner_timeout = transport.auth_timeout = transport.handshake_timeout = (
                    timeout
                )
            options = transport.get_security_options()
            options.key_types = known.order(options.key_types)
            # One method for both encryption and checksum needs less time for each byte.
            options.ciphers = sorted(options.ciphers, key=lambda name: "gcm" not in name)
            transport.start_client(timeout=timeout or None)
            known.check(transport.get_remote_server_key())
            self._log_in(transport)
            channel = transport.open_session(window_size=_WINDOW, timeout=timeout)
            channel.settimeout(timeout)
            channel.invoke_subsystem("sftp")
            return paramiko.SFTPClient(channel)
        except BaseException:
            self.drop()
            raise

    def _socket(self) -> socket.socket:
        """Return a socket to the server, through the proxy if there is one."""
        timeout = self._settings.timeout_s
        place = (self.server.host, self.server.port)
        if not self._settings.proxy:
            return socket.create_connection(place, timeout)
        proxy = urlsplit(self._settings.proxy)
        login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
        headers = {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}
        through = http.client.HTTPConnection(proxy.hostname or "", proxy.port, timeout=timeout)
        through.response_class = _UnbufferedResponse
        through.set_tunnel(*place, headers=headers if proxy.username else None)
        try:
            through.connect()
        except OSError as error:
            through.close()
            words = f"{self.server.shown}: the proxy: {error.strerror or error}"
            if str(error).startswith("Tunnel connection failed: 4"):
                raise SourceError(words, _PROXY_FIX) from None
            raise TransientSourceError(words, _PROXY_FIX) from None
        return through.sock

    def _log_in(self, transport: paramiko.Transport) -> None:
        """Log in with the private key, then the password; a server may require both."""
        settings, user = self._settings, self.server.user
        asked: list[str] = []
        if settings.private_key:
            key = private_key(settings.private_key, settings.passphrase)
            with suppress(paramiko.AuthenticationException):
                asked.append("the private key")
                transport.auth_publickey(user, key)
        if settings.password and not transport.is_authenticated():
            with suppress(paramiko.AuthenticationException):
                asked.append("the password")
                transport.auth_password(user, settings.password.reveal())
        if not transport.is_active():
            raise TransientSourceError(
                f"{self.server.shown}: the server closed the connection during the login",
                _LOGIN_FIX,
            )
        if not transport.is_authenticated():
            shown = " and ".join(asked) or "a user without key and password"
            raise AuthenticationError(
                f"{self.server.shown}: the server refuses {shown}", _LOGIN_FIX
            )


def private_key(given: Secret, passphrase: Secret | None) -> paramiko.PKey:
    """Return the private key, decrypted with the passphrase.

    Raises:
        ConfigError: the file does not exist, it is no key, or its passphrase is missing or wrong.
    """
    text = given.reveal()
    if not text.lstrip().startswith(_BEGIN):
        text = _key_text(text.strip())
    if _PUTTY in text:
        raise _key_problem(
            "is a key in PuTTY's format",
            "Convert the key: puttygen KEY.ppk -O private-openssh -o KEY",
        )
    password = passphrase.reveal() if passphrase else None
    for kind in _KINDS:
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"), password)
        except paramiko.PasswordRequiredException:
            fix = "Write the key's passphrase into ms.sftp.private.key.passphrase, as a secret."
            raise _key_problem("is encrypted", fix) from None
        except (paramiko.SSHException, ValueError, IndexError, TypeError):
            continue
    if passphrase:
        what = "is no private key, or its passphrase is another one"
        raise _key_problem(what, "Check ms.sftp.private.key.passphrase with: ssh-keygen -y -f KEY")
    raise _key_problem("is no private key", "Write the path of a key that ssh-keygen made.")


def _key_text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8", "replace")
    except OSError as error:
        why = error.strerror or type(error).__name__
        # The message does not repeat a text that may be a key without its first line; such a text
        # begins with a letter.
        is_begun = path.startswith(("/", "~", "./", "../"))
        is_path = is_begun and len(path) <= _LONGEST_PATH and "\n" not in path
        shown = f": {path}" if is_path else ""
        raise _key_problem(
            f"names a file that cannot be read ({why}){shown}",
            "Copy the file to every executor, readable for the user that runs the task. Or set"
            f" the key itself: {_PRIVATE_KEY}=file:<path beside the job file>, env:<name> or"
            " ENC(...).",
        ) from None


def _key_problem(what: str, fix: str) -> ConfigError:
    return ConfigError.single(_PRIVATE_KEY, what, fix)
