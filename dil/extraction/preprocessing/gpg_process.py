"""Pipes bytes through a GnuPG process, and deletes the home folder of the process afterwards.

No secret is ever part of a command line: pass phrases go through a pipe.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

from dil.errors import ConfigError, SourceContractError
from dil.extraction.preprocessing.decoded import cut, garbage, nothing
from dil.extraction.streams import ReadStream

_PROGRAM = "gpg"
_PREFIX = "dil-gpg-"
# The name of the file that is locked while its home is in use.
_LOCK = "held"
_PREPROCESSORS = "ms.extract.preprocessors"
_PARAMETERS = "ms.extract.preprocessor.parameters"
_CHUNK = 64 * 1024
_SHOWN = 300
_NO_REASON = "it gave no reason"
_QUIT_S = 10
_FIX = (
    "Check the keys and the pass phrase in ms.extract.preprocessor.parameters, and whether the"
    " source sent the whole file."
)
# GnuPG's lines about its own buffers and its new home, which help no reader.
_CHATTER = ("block_filter", "keybox '", "trustdb created")
# The lower half of a code is the error, the upper half the part of GnuPG that reported it.
_CODE = 0xFFFF
_BAD_PASSPHRASE, _NO_PASSPHRASE = 11, 177
_ANONYMOUS = "0" * 16


class GpgHome:
    """A key ring of one attempt: a folder that only this user can read, deleted by ``close``."""

    def __init__(self) -> None:
        program = shutil.which(_PROGRAM)
        if program is None:
            raise ConfigError.single(
                _PREPROCESSORS,
                f"needs {_PROGRAM}, which was not found on {os.uname().nodename}",
                "Install GnuPG on every machine that runs tasks: apt-get install gnupg.",
            )
        self._program = program
        _sweep()
        self._lock: IO[bytes] | None
        self._folder, self._lock = _new_home()

    def command(self, *arguments: str) -> list[str]:
        """Return a command line of GnuPG with these arguments, so that GnuPG asks no questions."""
        return [
            self._program, "--homedir", self._folder, "--batch", "--no-tty", "--yes",
            "--pinentry-mode", "loopback", *arguments,
        ]  # fmt: skip

    def take_keys(self, path: str) -> None:
        """Import the keys of a file.

        Raises:
            ConfigError: the file does not exist, or has no key.
        """
        if not Path(path).is_file():
            raise ConfigError.single(
                _PARAMETERS,
                f"names the key file {path}, which is not there",
                "Copy the file of keystore_path to every machine that runs tasks.",
            )
        found = subprocess.run(  # noqa: S603 - no shell, and a path behind --
            self.command("--status-fd", "1", "--import", "--", path),
            capture_output=True,
            check=False,
        )
        if b" IMPORT_OK " not in found.stdout:
            raise ConfigError.single(
                _PARAMETERS,
                f"names the key file {path}, which has no key: {reason_of(found.stderr)}",
                "Let keystore_path name a file from `gpg --export` or `gpg --export-secret-keys`.",
            )

    def close(self) -> None:
        """End the helper processes of this home, and delete the home; safe to call twice."""
        if self._lock is None:
            return
        _delete(self._folder)
        self._lock.close()
        self._lock = None


def _new_home() -> tuple[str, IO[bytes]]:
    """Return a new folder and its lock, which the system frees when this process ends.

    The folder is locked first, and then gets a name that ``_sweep`` looks for.
    """
    made = Path(tempfile.mkdtemp(prefix=f"new-{_PREFIX}"))
    lock = (made / _LOCK).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    home = made.rename(made.with_name(made.name.removeprefix("new-")))
    return str(home), lock


def _sweep() -> None:
    """Delete homes of this user whose processes were killed, and end the agents left in them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # Another process deletes it as well, or another user owns it.
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _delete(str(folder))


def _delete(folder: str) -> None:
    killer = shutil.which("gpgconf")
    if killer is not None:
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603 - no shell
                [killer, "--homedir", folder, "--kill", "all"],
                capture_output=True,
                check=False,
                timeout=_QUIT_S,
            )
    shutil.rmtree(folder, ignore_errors=True)


def reason_of(output: bytes) -> str:
    """Return the program's output on one line, shortened."""
    lines = output.decode("utf-8", "replace").splitlines()
    shown = (line.removeprefix("gpg: ") for line in lines if not any(map(line.count, _CHATTER)))
    text = "; ".join(line.strip() for line in shown)
    return text[:_SHOWN] or _NO_REASON


class GpgStream(ReadStream):
    """The output of a GnuPG process that gets ``source`` as input; closing it closes ``source``.

    Each read also feeds the process. The output must not be trusted until the process has reported
    the status ``wanted``.
    """

    def __init__(
        self, source: BinaryIO, command: Sequence[str], passphrase: str, wanted: str
    ) -> None:
        self._source = source
        self._wanted = wanted
        self._is_over = False
        self._left = memoryview(b"")
        self._has_begun = False
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        self._status: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = self._started(list(command), passphrase)
        self._select = selectors.DefaultSelector()
        for stream, event in (
            (self._process.stdin, selectors.EVENT_WRITE),
            (self._process.stdout, selectors.EVENT_READ),
        ):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._select.register(stream, event)

    def _started(self, command: list[str], passphrase: str) -> subprocess.Popen[bytes]:
        reader, writer = os.pipe()
        try:
            # A pipe holds 64 KiB, so this write never waits.
            os.write(writer, passphrase.encode()[: _CHUNK - 1] + b"\n")
            os.close(writer)
            arguments = [
                command[0], "--status-fd", str(self._status.fileno()),
                "--passphrase-fd", str(reader), *command[1:],
            ]  # fmt: skip
            return subprocess.Popen(  # noqa: S603 - no shell
                arguments,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                pass_fds=(reader, self._status.fileno()),
            )
        finally:
            os.close(reader)

    def read(self, size: int = -1, /) -> bytes:
        """Return up to ``size`` bytes, empty at the end; -1 means all the rest.

        Raises:
            SourceContractError: the process failed, or did not report the wanted status.
        """
        if size < 0:
            return self.readall()
        while not self._is_over:
            for key, _ in self._select.select():
                if key.fileobj is self._process.stdin:
                    self._feed()
                    continue
                data = os.read(key.fd, min(size, 1 << 20))
                if data:
                    return data
                self._is_over = True
                self._finish()
                break
        return b""

    def close(self) -> None:
        """Stop the process if it still runs, and close the stream beneath."""
        if self.closed:
            return
        super().close()
        self._select.close()
        self._end_input()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._words.close()
        self._status.close()
        self._source.close()

    def _feed(self) -> None:
        """Give the process as much input as it accepts now; after the last input close its pipe."""
        if not self._left:
            self._left = memoryview(self._source.read(_CHUNK))
        if not self._left:
            self._end_input()
            return
        self._has_begun = True
        try:
            self._left = self._left[os.write(self._input.fileno(), self._left) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            # The process accepts no more input; its status gives the reason when its output ends.
            self._end_input()

    @property
    def _input(self) -> IO[bytes]:
        if self._process.stdin is None:
            raise AssertionError("the process was started with a pipe")
        return self._process.stdin

    def _end_input(self) -> None:
        if self._input.closed:
            return
        with suppress(KeyError, ValueError, RuntimeError):
            self._select.unregister(self._input)
        with suppress(BrokenPipeError):
            self._input.close()

    def _finish(self) -> None:
        """Check for success after the end of the output."""
        has_all = self._input.closed and not self._left
        code = self._process.wait()
        self._status.seek(0)
        lines = [line.decode("utf-8", "replace") for line in self._status if line.count(b" ")]
        said = {line.split()[1] for line in lines}
        if code == 0 and self._wanted in said:
            if has_all:
                return
            raise garbage("PGP")
        if not self._has_begun:
            raise nothing("PGP")
        self._words.seek(0)
        words = reason_of(self._words.read())
        if words == _NO_REASON and "NODATA" in said:  # the first packet is not complete
            raise cut("PGP")
        what, fix = failure_of(lines) or (words, _FIX)
        raise SourceContractError(
            f"GnuPG failed: {what}" if what == words else f"GnuPG failed: {what} ({words})", fix
        )


def failure_of(lines: Iterable[str]) -> tuple[str, str] | None:
    """Return why GnuPG refused a message, and the advice; None if no line says why.

    GnuPG's last message is "No secret key" both for a wrong pass phrase and for a missing key, so
    its status lines decide. Source: GnuPG 2.2, doc/DETAILS, "Format of the --status-fd output";
    error codes of libgpg-error.
    """
    words = [line.split()[1:] for line in lines]
    codes = {_number(each[2]) & _CODE for each in words if each[:1] == ["ERROR"] and each[2:]}
    if _BAD_PASSPHRASE in codes:
        return "the pass phrase is wrong", f"Correct keystore_password in {_PARAMETERS}."
    if _NO_PASSPHRASE in codes or ["MISSING_PASSPHRASE"] in words:
        return "a pass phrase is needed", f"Set keystore_password in {_PARAMETERS}."
    signers = [each[1] for each in words if each[:1] == ["NO_PUBKEY"] and each[1:]]
    if signers and ["DECRYPTION_OKAY"] in words:
        return (
            f"the message is signed, and the public key of its signer {signers[0]} is missing",
            f"Get this key from the sender, and append it to keystore_path in {_PARAMETERS}: gpg"
            f" --export {signers[0]} writes it on a machine that has it.",
        )
    missing = [each[1] for each in words if each[:1] == ["NO_SECKEY"] and each[1:]]
    if not missing:
        return None
    if set(missing) == {_ANONYMOUS}:
        return (
            "the message does not name its key, and no key of the job opens it",
            f"Check keystore_path and keystore_password in {_PARAMETERS}.",
        )
    keys = " or ".join(dict.fromkeys(missing))
    return (
        f"the secret key is missing: the message is for {keys}",
        f"Let keystore_path in {_PARAMETERS} name a file with this key: gpg --export-secret-keys"
        f" {missing[0]} writes the file on the machine that has the key.",
    )


def _number(text: str) -> int:
    """Return the number that a code begins with, such as 11 of ``11_BAD_PASSPHRASE``."""
    digits = text.partition("_")[0]
    return int(digits) if digits.isdigit() else 0
