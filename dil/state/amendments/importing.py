"""Reads (job, signature, high) rows of another state store (rules P17 and P18)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dil.errors import ConfigError, Origin, Problem
from dil.state.work_units.signatures import (
    ImportedHigh,
    SignatureParts,
    decoded,
    parts_of_signature,
)

COLUMNS = ("job", "signature", "high")
_MAX_PROBLEMS = 20
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_JSON_FIX = (
    'Write one JSON object a line: {"job": "...", "signature": "...", "high": 1704067200000}.'
)
_HIGH_FIX = "Write epoch milliseconds, such as 1704067200000."
_FORM_FIX = {
    "csv": "Save it as UTF-8 CSV with the header job,signature,high, or give --format json.",
    "json": _JSON_FIX,
}


@dataclass(frozen=True, slots=True)
class ImportFile:
    """The rows of one job in a file.

    ``others`` is the number of rows of each other job. ``unsuccessful`` is the number of rows whose
    high equals the partition start: their work unit never succeeded, so there is nothing to record.
    """

    highs: tuple[ImportedHigh, ...]
    rows: int
    others: Mapping[str, int]
    unsuccessful: int


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """The largest allowed high watermarks; epoch ms UTC.

    ``ends`` are the ends of the job's partitions, by start; ``now`` is the limit for other
    partitions.
    """

    ends: Mapping[int, int] = field(default_factory=dict)
    now: int | None = None

    def broken_by(self, low: int, high: int) -> str:
        """Return the problem with a high of the partition from ``low`` on, else empty text."""
        end = self.ends.get(low)
        if end is not None and high > end:
            return f"is after the partition's end {end}, as the job is configured now"
        if self.now is not None and high > self.now:
            return f"is after now, {self.now}"
        return ""


def read_import(
    path: str,
    form: str,
    job: str,
    *,
    spelling: Callable[[str], str] = decoded,
    limits: ImportLimits | None = None,
) -> ImportFile:
    """Read a whole file and return its rows; if any row has a problem, no row is returned.

    Args:
        path: A CSV file with the header job,signature,high, or one JSON object a line.
        form: ``csv`` or ``json``.
        job: The job whose rows are wanted.
        spelling: Takes a signature as the file writes it, and returns its raw form.
        limits: The largest allowed highs; a success beyond them would hide unread rows.

    Raises:
        ConfigError: the file cannot be read, or rows have problems; at most twenty are listed, with
            lines.
    """
    reader = _Reader(path, job, spelling, limits or ImportLimits())
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as stream:
            rows = _json_rows(stream, path) if form == "json" else _csv_rows(stream, path)
            for line, row in rows:
                reader.take(line, row)
                if len(reader.problems) >= _MAX_PROBLEMS:
                    break
    except OSError as error:
        raise ConfigError.single(
            path,
            f"cannot be read: {error.strerror}",
            "Name a local file that this user may read.",
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError.single(
            path, f"is no UTF-8 text of this form: {error}", _FORM_FIX[form]
        ) from error
    if reader.problems:
        raise ConfigError(reader.problems)
    return ImportFile(tuple(reader.found), reader.rows, reader.others, reader.unsuccessful)


class _Reader:
    """Checks rows one by one and keeps the job's rows by signature."""

    def __init__(
        self, path: str, job: str, spelling: Callable[[str], str], limits: ImportLimits
    ) -> None:
        self._path = path
        self._job = job
        self._spelling = spelling
        self._limits = limits
        self._highs: dict[str, int] = {}
        self.found: list[ImportedHigh] = []
        self.problems: list[Problem] = []
        self.rows = 0
        self.others: dict[str, int] = {}
        self.unsuccessful = 0

    def take(self, line: int, row: Mapping[str, object]) -> None:
        """Take one row; each mistake in it becomes a problem."""
        self.rows += 1
        if row.get("job") is None:
            self._problem(line, "has no job", "Each row must name its job.")
            return
        if row["job"] != self._job:
            other = str(row["job"])
            self.others[other] = self.others.get(other, 0) + 1
            return
        signature = self._spelling(str(row.get("signature")))
        parts = parts_of_signature(signature)
        if parts is None:
            self._problem(
                line,
                f"{row.get('signature')!r} is no signature",
                "Signatures read [watermark.<name>.<start ms>, watermark.<name>.<unit JSON>];"
                " / may be %2F.",
            )
            return
        high = _whole(row.get("high"))
        if high is None:
            self._problem(line, f"high {row.get('high')!r} is no instant", _HIGH_FIX)
        elif high < parts.low:
            self._problem(line, f"high {high} is before the partition start {parts.low}", _HIGH_FIX)
        elif what := self._limits.broken_by(parts.low, high):
            self._problem(
                line,
                f"high {high} {what}",
                "This work unit cannot have read such rows. Compare from, zone and partition type"
                " with the old job's, or correct the high.",
            )
        else:
            self._keep(line, signature, parts, high)

    def _keep(self, line: int, signature: str, parts: SignatureParts, high: int) -> None:
        known = self._highs.get(signature)
        if known is not None and known != high:
            self._problem(
                line, f"{signature} has high {high}, but an earlier line has {known}", "Keep one."
            )
        elif known is None:
            self._highs[signature] = high
            if high == parts.low:
                self.unsuccessful += 1
            else:
                self.found.append(ImportedHigh(signature, parts, high))

    def _problem(self, line: int, what: str, fix: str) -> None:
        self.problems.append(Problem(Origin(self._path, line), "", what, fix))


def _csv_rows(stream: Iterable[str], path: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    lines = csv.reader(stream, strict=True)
    header = next(lines, [])
    if not set(COLUMNS) <= set(header):
        is_json = bool(header) and header[0].lstrip().startswith("{")
        fix = "It looks like JSON: give --format json." if is_json else "Write it as first line."
        raise ConfigError.single("", "has no header job,signature,high", fix, Origin(path, 1))
    for fields in lines:
        if fields:
            yield lines.line_num, dict(zip(header, fields, strict=False))


def _json_rows(stream: Iterable[str], path: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError.single(
                "", f"is no JSON: {error}", _JSON_FIX, Origin(path, number)
            ) from None
        if not isinstance(row, dict):
            raise ConfigError.single("", "is no JSON object", _JSON_FIX, Origin(path, number))
        yield number, row


def _whole(value: object) -> int | None:
    """Return the whole number in a CSV or JSON value, None for any other value."""
    text = str(value).strip() if isinstance(value, str | int) else ""
    return int(text) if _WHOLE.fullmatch(text) else None
