"""Translates errors of an SFTP server and the client library into our errors."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import paramiko

from dil.errors import AuthenticationError, SourceError, TransientSourceError
from dil.model.messages import shortened

_NETWORK_FIX = "Check the server, the network and the proxies on the way."
_ADDRESS_FIX = "Check ms.source.uri, source.conn.host and source.conn.port."
_TIMEOUT_FIX = f"{_NETWORK_FIX} ms.sftp.conn.timeout.millis sets a longer time."
_RIGHTS_FIX = "Grant the user access on the server, or check the path in ms.source.uri."
_PROTOCOL_FIX = "Inform the server's owner. DIL uses no byte of such an answer."
# The library's texts for a closed channel, which has no error class of its own.
_CLOSED = "Socket is closed"
_REASONS: tuple[tuple[tuple[type[BaseException], ...], str, str], ...] = (
    ((socket.gaierror,), "host name not found", _ADDRESS_FIX),
    ((ConnectionRefusedError,), "connection refused", _ADDRESS_FIX),
    ((TimeoutError,), "timed out", _TIMEOUT_FIX),
    ((ConnectionError,), "connection reset", _NETWORK_FIX),
    ((EOFError,), "the connection was closed", _NETWORK_FIX),
)


class NotThereError(SourceError):
    """The file or folder does not exist."""


@contextmanager
def translated_errors(shown: str) -> Iterator[None]:
    """Translate errors of the client library; ``shown`` begins the messages and holds no secret."""
    try:
        yield
    except UnicodeDecodeError:
        raise SourceError(
            f"{shown}: a name there is not UTF-8", "Rename the file on the server."
        ) from None
    except (paramiko.SSHException, paramiko.SFTPError, OSError, EOFError) as error:
        raise _failure(error, shown) from None


def _failure(error: Exception, shown: str) -> SourceError:
    if isinstance(error, OSError) and error.errno == errno.ENOENT:
        return NotThereError(f"{shown}: no such file or folder", "Check ms.source.uri.")
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return AuthenticationError(f"{shown}: permission denied", _RIGHTS_FIX)
    for kinds, reason, fix in _REASONS:
        if isinstance(error, kinds):
            return TransientSourceError(f"{shown}: {reason}", fix)
    words = shortened(str(error))
    if isinstance(error, paramiko.SFTPError):
        return SourceError(f"{shown}: the server breaks the protocol: {words}", _PROTOCOL_FIX)
    if isinstance(error, OSError) and error.errno is None and words != _CLOSED:
        # A status of the protocol that carries only a text.
        return SourceError(f"{shown}: the server answers: {words}", _RIGHTS_FIX)
    return TransientSourceError(f"{shown}: the connection failed ({words})", _NETWORK_FIX)
