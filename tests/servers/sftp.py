"""A real OpenSSH server that speaks only SFTP, on a free loopback port, stopped by pid.

Its user is the user that runs the tests. So the server cannot check passwords, which are the
machine's own; and its answers are as long as the client asks. ``PasswordServer`` can do both:
paramiko's server side in this process.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import paramiko

from tests.servers.programs import free_port, needed_program
from tests.servers.waiting import wait_until_listening

PASSPHRASE = "pass phrase ü"


class SftpServer:
    """One sshd with keys of its own; ``files`` is a folder that its user sees under its path.

    ``denied`` is a kind of request, such as ``open``, that the server refuses as not permitted.
    """

    def __init__(self, denied: str = "") -> None:
        self._denied = f" -P {denied}" if denied else ""
        self._program = needed_program("sshd", "/usr/sbin")
        self.port = free_port()
        self.user = getpass.getuser()

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="dil-sshd-"))
        self.files = self.folder / "files"
        self.files.mkdir()
        self.key = self.make_key("user")
        self.host_key = self.make_key("host")
        (self.folder / "authorized").write_text(self.public(self.key))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it, and the package does not start
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    @property
    def uri(self) -> str:
        return f"sftp://127.0.0.1:{self.port}{self.files}"

    def make_key(self, name: str, *, kind: str = "ed25519", passphrase: str = "") -> Path:
        """Make a key pair and return the path of the private key."""
        path = self.folder / name
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True
        )
        return path

    def public(self, key: Path) -> str:
        return key.with_suffix(".pub").read_text()

    def authorize(self, key: Path) -> None:
        """Accept the owner of a key, too."""
        with (self.folder / "authorized").open("a") as stream:
            stream.write(self.public(key))

    def known_hosts(self, port: int | None = None, key: Path | None = None) -> Path:
        """Write a file of known hosts that has the server's key, and return its path."""
        path = self.folder / f"known_hosts_{port or self.port}"
        words = self.public(key or self.host_key).split()[:2]
        path.write_text(f"[127.0.0.1]:{port or self.port} {' '.join(words)}\n")
        return path

    def properties(self, port: int | None = None) -> dict[str, str]:
        """Return the properties of a job that reads here, without ``ms.source.uri``."""
        return {
            "source__class": "sftp",
            "source__conn__host": "127.0.0.1",
            "source__conn__port": str(port or self.port),
            "source__conn__username": self.user,
            "source__conn__private__key": str(self.key),
            "source__conn__known__hosts": str(self.known_hosts(port)),
        }

    def start(self) -> None:
        """Start the server, also after a stop."""
        settings = [
            f"Port={self.port}", "ListenAddress=127.0.0.1", f"HostKey={self.host_key}",
            f"AuthorizedKeysFile={self.folder / 'authorized'}", "PidFile=none", "UsePAM=no",
            "StrictModes=no", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
            f"Subsystem=sftp internal-sftp{self._denied}", "PermitRootLogin=yes",
            f"ForceCommand=internal-sftp{self._denied}",
            "MaxStartups=100", "MaxSessions=100",
        ]  # fmt: skip
        options = [part for each in settings for part in ("-o", each)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-D", "-e", "-f", "/dev/null", *options],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_until_listening(self._process, self.port, self.folder / "log")

    def stop(self) -> None:
        """Kill the server and all its sessions, which are process groups of their own."""
        sessions = _children(self._process.pid)
        for pid in [self._process.pid, *sessions]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(timeout=30)


def _children(pid: int) -> list[int]:
    """Return the processes that a process of ours started, and the processes of these."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    children = [int(word) for word in found.stdout.split()]
    return [*children, *(each for child in children for each in _children(child))]


class PasswordServer:
    """Takes one user's password; ``/in`` has ``a.json``, sent in answers of ``most`` bytes.

    It can misbehave. If ``tells_size`` is false, it does not tell the file's length. It adds
    ``extra`` bytes to an answer that nobody asked for. ``name`` is the file's name in its lists.
    ``logins`` are the passwords that it was given.
    """

    def __init__(
        self,
        user: str,
        password: str,
        content: bytes = b"",
        most: int = 1 << 20,
        *,
        tells_size: bool = True,
        extra: int = 0,
        name: str = "a.json",
    ) -> None:
        self._user, self._password = user, password
        self.logins: list[str] = []
        self._file = _Served(content, most, tells_size, extra, name)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.key = paramiko.ECDSAKey.generate()
        self.transports: list[paramiko.Transport] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=10)
        self._listener.close()
        for transport in self.transports:
            transport.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(client)
            transport.add_server_key(self.key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Folder, self._file)
            self.transports.append(transport)
            transport.start_server(
                event=threading.Event(), server=_Login(self._user, self._password, self.logins)
            )


class _Login(paramiko.ServerInterface):
    def __init__(self, user: str, password: str, logins: list[str]) -> None:
        self._login = (user, password)
        self._logins = logins

    def get_allowed_auths(self, username: str) -> str:
        return "password"

    def check_auth_password(self, username: str, password: str) -> int:
        self._logins.append(password)
        is_right = (username, password) == self._login
        return paramiko.AUTH_SUCCESSFUL if is_right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


@dataclass(frozen=True)
class _Served:
    """The file, and how the server sends it."""

    content: bytes
    most: int
    tells_size: bool
    extra: int
    name: str

    @property
    def attributes(self) -> paramiko.SFTPAttributes:
        found = _attributes(0o100644, len(self.content) if self.tells_size else None)
        found.filename = self.name
        return found


class _Folder(paramiko.SFTPServerInterface):
    def __init__(self, server: paramiko.ServerInterface, file: _Served) -> None:
        super().__init__(server)
        self._file = file

    def stat(self, path: str) -> paramiko.SFTPAttributes:
        return self._file.attributes if path.endswith(".json") else _attributes(0o040755)

    def list_folder(self, path: str) -> list[paramiko.SFTPAttributes]:
        return [self._file.attributes]

    def open(self, path: str, flags: int, attr: object) -> paramiko.SFTPHandle:
        return _Handle(self._file)


class _Handle(paramiko.SFTPHandle):
    def __init__(self, file: _Served) -> None:
        super().__init__()
        self._file = file

    def stat(self) -> paramiko.SFTPAttributes:
        return self._file.attributes

    def read(self, offset: int, length: int) -> bytes | int:
        data = self._file.content[offset : offset + min(length, self._file.most)]
        return data + b"x" * self._file.extra if data else paramiko.SFTP_EOF


def _attributes(mode: int, size: int | None = 0) -> paramiko.SFTPAttributes:
    found = paramiko.SFTPAttributes()
    found.st_mode, found.st_size, found.st_atime, found.st_mtime = mode, size, 1, 1
    return found
