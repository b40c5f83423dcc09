"""Writes the audit: every request of an attempt, as JSON lines (docs/egress.md).

A request has two lines: ``request`` is durable before the request is sent, and ``answer`` is
written after the answer. A request without an answer line may have been sent. The files are
never staged and never deleted: requests of a failed attempt were sent, too.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dil.errors import WriteError
from dil.model.json import JsonObject, JsonValue, compact
from dil.model.secret import OpenedText
from dil.model.task import AttemptId
from dil.spi.audit import AuditedRequest
from dil.storage import Filesystem, filesystem_for
from dil.storage.locations import is_local

log = logging.getLogger(__name__)

NOT_RECORDED = (
    "some requests could not be recorded in the audit; the run continued because"
    " ms.audit.required is false"
)


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """The folder of the audit, an absolute path or URI, and whether recording is required.

    ``now_ms`` returns the wall clock's time in epoch ms, ``monotonic`` a monotonic clock's time in
    seconds; ``clean`` masks the job's secrets in a text.
    """

    directory: str
    is_required: bool
    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    clean: Callable[[str], str]


class AuditWriter:
    """Records the requests of one attempt in a file of its own; every line names the attempt.

    See ``dil.spi.audit``.
    """

    def __init__(self, place: AuditPlace, attempt: AttemptId) -> None:
        self._place = place
        self._attempt = attempt
        self._lines: _LocalLines | _RemoteLines | None = None
        self._begun: dict[int, float] = {}
        self._number = 0
        self._has_failed = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes for the report."""
        return (NOT_RECORDED,) if self._has_failed else ()

    def sent(self, request: AuditedRequest) -> int:
        """Write the line of a request and make it durable; return its number.

        Raises:
            WriteError: writing failed, and ``ms.audit.required`` is true.
        """
        self._number += 1
        line = {
            "event": "request",
            **self._who(self._number),
            "method": request.method,
            "uri": self._place.clean(request.uri),
            "parameters": self._cleaned(dict(request.parameters)),
            "payload": self._cleaned(request.payload),
        }
        self._write(line, is_durable=True)
        self._begun[self._number] = self._place.monotonic()
        return self._number

    def answered(self, number: int, status: int, error: str = "") -> None:
        """Write the outcome of a request; ``status`` is 0 if no answer came.

        Raises:
            WriteError: writing failed, and ``ms.audit.required`` is true.
        """
        begun = self._begun.pop(number, None)
        took = None if begun is None else round((self._place.monotonic() - begun) * 1000)
        line = {
            "event": "answer",
            **self._who(number),
            "status": status or None,
            "milliseconds": took,
            "error": self._place.clean(error) or None,
        }
        self._write(line, is_durable=False)

    def close(self) -> None:
        """Make the last line durable; an attempt without requests has no file.

        Raises:
            WriteError: writing failed, and ``ms.audit.required`` is true.
        """
        lines, self._lines = self._lines, None
        if lines is None:
            return
        try:
            lines.close()
        except (OSError, WriteError) as error:
            self._failed(error)

    def _who(self, number: int) -> dict[str, JsonValue]:
        attempt = self._attempt
        return {
            "job": attempt.job,
            "run_id": attempt.run_id,
            "signature": attempt.signature,
            "attempt": attempt.number,
            "sequence": number,
            "time": self._place.now_ms(),
        }

    def _write(self, line: JsonObject, *, is_durable: bool) -> None:
        data = f"{compact(line)}\n".encode("utf-8", "backslashreplace")
        try:
            if self._lines is None:
                attempt, folder = self._attempt, self._place.directory
                name = f"audit-{attempt.run_id}-{attempt.unit_hash}-{attempt.number}"
                name = f"{name}-{uuid.uuid4().hex}"
                if is_local(folder):
                    self._lines = _LocalLines(Path(folder), f"{name}.json")
                else:
                    self._lines = _RemoteLines(filesystem_for(folder), folder, name)
            self._lines.write(data, is_durable=is_durable)
        except (OSError, WriteError) as error:
            self._failed(error)

    def _failed(self, error: OSError | WriteError) -> None:
        reason = error.message if isinstance(error, WriteError) else error.strerror or error
        what = f"{self._place.directory}: the audit cannot be written: {reason}"
        if self._place.is_required:
            raise WriteError(
                what,
                "Check free space and permissions there, and ms.audit.dir. To send without a"
                " record set ms.audit.required=false.",
            ) from error
        if not self._has_failed:
            log.warning("%s", what)
        self._has_failed = True

    def _cleaned(self, value: JsonValue) -> JsonValue:
        """Return a value with the secrets masked in all its texts."""
        if isinstance(value, str):
            return self._place.clean(value.written if isinstance(value, OpenedText) else value)
        if isinstance(value, Mapping):
            return {name: self._cleaned(item) for name, item in value.items()}
        if isinstance(value, Sequence):
            return [self._cleaned(item) for item in value]
        return value


class _LocalLines:
    """A new local file for appended lines; a power cut does not lose durable lines."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        self._handle = os.open(
            folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600
        )
        entries = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entries)
        finally:
            os.close(entries)

    def write(self, data: bytes, *, is_durable: bool) -> None:
        """Add a line."""
        while data:
            data = data[os.write(self._handle, data) :]
        if is_durable:
            os.fsync(self._handle)

    def close(self) -> None:
        """Make all lines durable."""
        try:
            os.fsync(self._handle)
        finally:
            os.close(self._handle)


class _RemoteLines:
    """Files in a store that cannot append: each line that must be durable begins a new file.

    The file also holds the kept lines before that line.
    """

    def __init__(self, filesystem: Filesystem, folder: str, name: str) -> None:
        filesystem.make_folder(folder.rpartition("/")[0])
        filesystem.make_folder(folder, mode=0o700)
        self._filesystem = filesystem
        self._name = f"{folder}/{name}"
        self._number = 0
        self._kept = b""

    def write(self, data: bytes, *, is_durable: bool) -> None:
        """Keep a line; or write the kept lines and this line to a file."""
        self._kept += data
        if is_durable:
            self._flush()

    def close(self) -> None:
        """Write the kept lines."""
        if self._kept:
            self._flush()

    def _flush(self) -> None:
        data, self._kept = self._kept, b""
        self._number += 1
        self._filesystem.put(f"{self._name}-{self._number:06}.json", data)
