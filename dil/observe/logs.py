"""Structured logs: one event per line, for people or as JSON, never with a secret.

This works on the driver and in executors alike: each process calls ``configure`` once, and ``bind``
around its work for one job, run or work unit.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import logging
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from dil.model.secret import Secret
from dil.observe.redaction import redactor

log = logging.getLogger(__name__)
OUR_LOGGERS = ("dil", "connectors")
# These loggers log every request or message to the JVM; no reader needs that below WARNING.
_CHATTY = ("pyspark", "urllib3", "botocore", "paramiko", "azure", "google", "msal")
# These loggers log every error that they also raise, and Ctrl-C, with a traceback.
_SILENT = ("py4j", "SQLQueryContextLogger")
_DIGITS = re.compile(r"[0-9]+(?:[.][0-9]+)?")
_COMPARED, _REMEMBERED = 500, 1_000
_IS_MASKED = "is_masked"
# The extra of a record whose secrets are masked already, part by part.
MASKED = {_IS_MASKED: True}
_SILENT_FOLDERS = frozenset(_SILENT)
# Text from a source must not move the cursor, forge a line or colour the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class LogContext:
    """The fields of every log line of this context; fields that are None are not in text lines."""

    run_id: str | None = None
    job: str | None = None
    unit: str | None = None
    begins: str | None = None
    attempt: int | None = None


_NOWHERE = LogContext()
_context: ContextVar[LogContext] = ContextVar("dil_log_context", default=_NOWHERE)


@contextlib.contextmanager
def bind(
    *,
    job: str | None = None,
    run_id: str | None = None,
    unit: str | None = None,
    begins: str | None = None,
    attempt: int | None = None,
) -> Iterator[None]:
    """Add fields to every log line inside the ``with`` block; None keeps an outer block's field.

    ``begins`` is the start of the work unit's time, for people: JSON lines leave it out.
    A new thread starts without fields, as with every context variable.
    """
    outer = _context.get()
    inner = LogContext(
        run_id=outer.run_id if run_id is None else run_id,
        job=outer.job if job is None else job,
        unit=outer.unit if unit is None else unit,
        begins=outer.begins if begins is None else begins,
        attempt=outer.attempt if attempt is None else attempt,
    )
    token = _context.set(inner)
    try:
        yield
    finally:
        _context.reset(token)


def configure(
    *, level: str, json_lines: bool, stream: TextIO, secrets: Iterable[Secret] = ()
) -> None:
    """Send the log of this process to ``stream``; a second call replaces the first.

    Args:
        level: DEBUG, INFO, WARNING or ERROR, for our own loggers. Plug-ins log from INFO on.
            Records of installed libraries below ERROR, and records of py4j on the root logger,
            are written only under DEBUG, because the code that catches the error reports it.
        json_lines: Whether to write one JSON object a line (``ts level run_id job unit attempt
            event msg``) in place of text.
        stream: The stream for lines; ``sys.stderr`` is looked up for each line, so that a progress
            bar can stay below the lines.
        secrets: The secrets to mask, see ``redactor``.

    Raises:
        ValueError: the level is unknown.
    """
    formatter = _JsonFormatter(secrets) if json_lines else _TextFormatter(secrets)
    handler = _Handler(stream, formatter, is_brief=level.upper() != "DEBUG")
    root = logging.getLogger()
    for old in [known for known in root.handlers if isinstance(known, _Handler)]:
        root.removeHandler(old)
    for name in OUR_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())
    root.addHandler(handler)
    root.setLevel(max(logging.INFO, logging.getLogger(OUR_LOGGERS[0]).level))
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.captureWarnings(capture=True)
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _log_thread_failure


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread; Python's own hook would print it with its secrets."""
    error = failure.exc_value
    if error is not None and not isinstance(error, SystemExit):
        thread = failure.thread.name if failure.thread else "?"
        log.error("thread %s ended: %s", thread, type(error).__name__, exc_info=error)


class _Formatter(logging.Formatter):
    """The parts of a line, each without secrets; time in UTC with milliseconds."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        super().__init__()
        self.redact = redactor(secrets)

    def timestamp(self, record: logging.LogRecord) -> str:
        millis = int(record.created * 1000)
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000))
        return f"{seconds}.{millis % 1000:03d}Z"

    def message(self, record: logging.LogRecord) -> str:
        """Return the message; a message that is marked as masked stays unchanged."""
        text = record.getMessage()
        return text if getattr(record, _IS_MASKED, False) else self.redact(text)

    def trace(self, record: logging.LogRecord) -> str:
        """Return the traceback, empty if there is none; never the cached text: it is not masked."""
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return self.redact("\n".join(parts))


class _TextFormatter(_Formatter):
    """``2024-03-05T00:00:01.250Z INFO orders unit=... attempt=2: message``."""

    def format(self, record: logging.LogRecord) -> str:
        context = _context.get()
        place = [context.job] if context.job else []
        place += [f"unit={context.unit}"] if context.unit else []
        place += [f"from {context.begins}"] if context.begins else []
        place += [f"attempt={context.attempt}"] if context.attempt is not None else []
        where = f" {one_line(self.redact(' '.join(place)))}:" if place else ""
        message = one_line(self.message(record))
        head = f"{self.timestamp(record)} {record.levelname}{where} {message}"
        trace = self.trace(record)
        if not trace:
            return head
        return "\n".join([head, *(f"    {one_line(line)}" for line in trace.splitlines())])


class _JsonFormatter(_Formatter):
    """One JSON object; ``event`` is the value of the caller's ``extra={"event": ...}``, or null."""

    def format(self, record: logging.LogRecord) -> str:
        context = _context.get()
        line: dict[str, str | int | None] = {
            "ts": self.timestamp(record),
            "level": record.levelname,
            "run_id": context.run_id,
            "job": self._clean(context.job),
            "unit": self._clean(context.unit),
            "attempt": context.attempt,
            "event": getattr(record, "event", None),
            "msg": self.message(record),
            "logger": record.name,
        }
        trace = self.trace(record)
        if trace:
            line["exception"] = trace
        return json.dumps(line, default=str)

    def _clean(self, text: str | None) -> str | None:
        return None if text is None else self.redact(text)


class _Repeats:
    """Counts warnings that differ only in numbers: the 1st, 10th and 100th are written.

    Hundreds of work units may meet the same dead server, several times each.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int, str], int] = {}

    def seen(self, record: logging.LogRecord) -> int:
        """Return how often this process has seen such a record, including this time."""
        message = _DIGITS.sub("0", record.getMessage())[:_COMPARED]
        key = (record.name, record.levelno, message)
        count = self._counts.pop(key, 0) + 1
        self._counts[key] = count  # the newest at the end
        if len(self._counts) > _REMEMBERED:
            del self._counts[next(iter(self._counts))]
        return count


class _Handler(logging.Handler):
    """Writes to a stream; a record that cannot be formatted costs one line, not a leak.

    A brief handler leaves out the records of py4j, the records of libraries below ERROR, and our
    own repeated warnings.
    """

    def __init__(self, stream: TextIO, formatter: _Formatter, *, is_brief: bool) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._stream = None if stream is sys.stderr else stream
        self._redact = formatter.redact
        self._is_brief = is_brief
        self._repeats = _Repeats()

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_brief and (
            not _SILENT_FOLDERS.isdisjoint(Path(record.pathname).parts) or _is_of_library(record)
        ):
            return
        try:
            repeats = record.levelno == logging.WARNING or record.exc_info is not None
            if self._is_brief and repeats and _is_ours(record.name):
                count = self._repeats.seen(record)
                if count != 10 ** (len(str(count)) - 1):
                    return
                if count > 1:
                    record = _counted_again(record, count)
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 - arguments may be of any class and raise anything
            # The standard library would print the raw arguments.
            line = self._redact(
                f"{record.pathname}:{record.lineno}: cannot format log message "
                f"{record.msg!r}: {type(error).__name__}"
            )
        stream = self._stream or sys.stderr
        # A closed terminal or a full disk must not end a run that is about to commit.
        with contextlib.suppress(OSError, ValueError):
            stream.write(line + "\n")
            stream.flush()


def _is_of_library(record: logging.LogRecord) -> bool:
    """Return whether a record is of an installed package or Python, and below ERROR.

    Our own errors say everything that a user has to know. Packages with plug-ins count as ours.
    """
    if record.levelno >= logging.ERROR or _is_ours(record.name):
        return False
    # A warning of Python's begins with the file that gave it.
    place = record.getMessage() if record.name == "py.warnings" else record.pathname
    if not place.startswith(_installed_folders()):
        return False
    return record.name.partition(".")[0] not in _plugin_packages()


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({f"{paths[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@functools.cache
def _plugin_packages() -> frozenset[str]:
    """Return the packages that offer plug-ins."""
    import importlib.metadata

    from dil.spi.registry import PluginKind

    return frozenset(
        entry.value.partition(":")[0].partition(".")[0]
        for kind in PluginKind
        for entry in importlib.metadata.entry_points(group=kind.group)
    )


def _is_ours(logger: str) -> bool:
    return logger.partition(".")[0] in OUR_LOGGERS


def _counted_again(record: logging.LogRecord, count: int) -> logging.LogRecord:
    """Return a copy of a record that says how often such records came; the original stays."""
    found = copy.copy(record)
    found.msg = f"{record.getMessage()} (seen {count:,} times here; -v shows each)"
    found.args = None
    found.exc_info = found.exc_text = None  # the first record showed the traceback
    return found


def one_line(text: str) -> str:
    """Return the text with control characters as visible escapes, so that it fits one line."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
