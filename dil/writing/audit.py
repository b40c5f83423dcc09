"""The audit copy: every request of an attempt as JSON lines, written through (behaviour.md B16.4).

A request has two lines: ``request``, durable before it is sent, and ``answer``, written after. A
request without an answer line may have been sent. The files are never staged and never swept: what
a failed attempt sent was sent.
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

_LOG = logging.getLogger(__name__)

NOT_RECORDED = "some requests could not be recorded in the audit; ms.audit.required is false"


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """The folder of the audit, an absolute local path, and whether recording is a must.

    ``now_ms`` is the wall clock in epoch ms, ``monotonic`` a clock in seconds, ``clean`` masks the
    job's secrets in a text.
    """

    directory: str
    is_required: bool
    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    clean: Callable[[str], str]


class AuditWriter:
    """Records the requests of one attempt, named in every line, in a file of its own.

    See ``dil.spi.audit``.
    """

    def __init__(self, place: AuditPlace, attempt: AttemptId) -> None:
        self._place = place
        self._attempt = attempt
        self._handle: int | None = None
        self._begun: dict[int, float] = {}
        self._number = 0
        self._has_failed = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what a report has to tell."""
        return (NOT_RECORDED,) if self._has_failed else ()

    def sent(self, request: AuditedRequest) -> int:
        """Write the line of a request and make it durable; return its number.

        Raises:
            WriteError: that failed, and ``ms.audit.required`` is true.
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
        """Write what became of a request; ``status`` is 0 without an answer.

        Raises:
            WriteError: that failed, and ``ms.audit.required`` is true.
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
        """Make the last line durable; an attempt that sent nothing has no file.

        Raises:
            WriteError: that failed, and ``ms.audit.required`` is true.
        """
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            os.fsync(handle)
        except OSError as error:
            self._failed(error)
        finally:
            os.close(handle)

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
            if self._handle is None:
                self._handle = self._opened()
            while data:
                data = data[os.write(self._handle, data) :]
            if is_durable:
                os.fsync(self._handle)
        except OSError as error:
            self._failed(error)

    def _opened(self) -> int:
        """Create the attempt's file, such that a power cut does not take it away."""
        attempt = self._attempt
        name = (
            f"audit-{attempt.run_id}-{attempt.unit_hash}-{attempt.number}-{uuid.uuid4().hex}.json"
        )
        folder = Path(self._place.directory)
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        handle = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        entries = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entries)
        finally:
            os.close(entries)
        return handle

    def _failed(self, error: OSError) -> None:
        what = f"{self._place.directory}: the audit cannot be written: {error.strerror or error}"
        if self._place.is_required:
            raise WriteError(
                what,
                "Check free space and permissions there, and ms.audit.dir. To send without a"
                " record set ms.audit.required=false.",
            ) from error
        if not self._has_failed:
            _LOG.warning("%s", what)
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
