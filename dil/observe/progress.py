"""Progress of a run: a bar on a terminal, else a log line every 30 seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import TaskID

log = logging.getLogger(__name__)
LINE_EVERY_S = 30.0
_DAY_H = 24
_KILO = 1000
_TENTHS_BELOW_S = 10


class Progress(Protocol):
    """Takes a run's reports of its progress; every number is a total since ``start``.

    ``done`` counts finished work units, ``failed`` the failed ones among them, ``running`` the work
    units that run now. ``rows`` and ``bytes`` are staged, not yet published. Only one thread calls
    the methods.
    """

    def start(self, total: int) -> None:
        """Begin; ``total`` is the number of work units to run."""

    def update(self, *, done: int, failed: int, running: int, rows: int, bytes: int) -> None:  # noqa: A002 - the contract's word
        """Report the progress of the run; may be called any number of times."""

    def finish(self) -> None:
        """End, also after a failure or interruption; may be called twice, or without ``start``."""


def progress_for(stream: TextIO) -> Progress:
    """Return a bar if ``stream`` is a terminal, else lines in the log every 30 seconds."""
    return RichProgress(stream) if stream.isatty() else LineProgress(clock=time.monotonic)


class SilentProgress:
    """Says nothing."""

    def start(self, total: int) -> None:
        """Do nothing."""

    def update(self, *, done: int, failed: int, running: int, rows: int, bytes: int) -> None:  # noqa: A002
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""


class LineProgress:
    """One log line at the start, at most one every ``every_s`` seconds, and one at the end.

    Lines go through the log, so that they carry its time stamp and form (text or JSON).
    """

    def __init__(self, *, clock: Callable[[], float], every_s: float = LINE_EVERY_S) -> None:
        self._clock = clock
        self._every_s = every_s
        self._total: int | None = None
        self._started = 0.0
        self._last_line = 0.0
        self._state = (0, 0, 0, 0, 0)

    def start(self, total: int) -> None:
        """Say how many work units there are."""
        self._total = total
        self._started = self._last_line = self._clock()
        self._state = (0, 0, 0, 0, 0)
        log.info("%s to run", counted(total, "work unit"), extra={"event": "progress.start"})

    def update(self, *, done: int, failed: int, running: int, rows: int, bytes: int) -> None:  # noqa: A002
        """Keep the numbers; write a line if the last line is old enough."""
        self._state = (done, failed, running, rows, bytes)
        if self._clock() - self._last_line >= self._every_s:
            self._write("progress")

    def finish(self) -> None:
        """Write the last numbers, once."""
        if self._total is not None:
            self._write("progress.finish")
            self._total = None

    def _write(self, event: str) -> None:
        now = self._clock()
        self._last_line = now
        done, failed, running, rows, size = self._state
        elapsed = now - self._started
        parts = [f"{done:,} of {counted(self._total or 0, 'work unit')} done"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{running} running"] if running else []
        parts += [counted(rows, "row"), human_bytes(size)]
        parts += [f"{rows / elapsed:,.0f} rows/s"] if rows >= elapsed > 0 else []
        missing = (self._total or 0) - done
        if done and missing > 0:
            parts.append(f"about {human_seconds(elapsed / done * missing)} left")
        log.info("%s", ", ".join(parts), extra={"event": event})


class RichProgress:
    """A bar at the bottom of a terminal; log lines written to ``sys.stderr`` appear above it."""

    def __init__(self, stream: TextIO) -> None:
        # Imported here: a run under cron, and every other command, does not need it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("work units"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
            # Standard output belongs to the result.
            redirect_stdout=False,
        )
        self._task: TaskID | None = None

    def start(self, total: int) -> None:
        """Show the bar; it says that Spark is starting until the first numbers come."""
        self._task = self._bar.add_task("", total=total, detail="starting Spark")
        self._bar.start()

    def update(self, *, done: int, failed: int, running: int, rows: int, bytes: int) -> None:  # noqa: A002
        """Redraw with these numbers."""
        if self._task is None:
            return
        detail = f"{failed} failed  " if failed else ""
        detail += f"{running} running  {counted(rows, 'row')}  {human_bytes(bytes)}"
        self._bar.update(self._task, completed=done, detail=detail)

    def finish(self) -> None:
        """Leave the last state of the bar on the terminal."""
        self._bar.stop()


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``1,200 rows``, ``2 micro-batches``."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"


def human_bytes(size: int) -> str:
    """Return a size with about three digits: ``512 B``, ``1.5 KB`` (powers of 1000)."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if value < _KILO:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KILO
    return f"{value:.1f} TB"


def human_seconds(seconds: float) -> str:
    """Return a duration as text: ``0.4 s``, ``3 min 20 s``, ``2 h 05 min``, ``5 d 4 h``.

    ``seconds`` are not negative.
    """
    if seconds < _TENTHS_BELOW_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if not minutes:
        return f"{rest} s"
    hours, left = divmod(minutes, 60)
    if hours >= 2 * _DAY_H:
        return f"{hours // _DAY_H:,} d {hours % _DAY_H} h"
    return f"{hours} h {left:02d} min" if hours else f"{minutes} min {rest:02d} s"
