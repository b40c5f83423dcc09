"""Writes payload rows that the receiver refused, as JSON lines beside an attempt's staged files.

The lines are published together with the attempt's files, but they are not live files of the
dataset. Each line is the row with one more member, ``_failed``. ``ms.secondary.input`` can read the
files as payload rows again; if the ``fields`` of that input do not name ``_failed``, this member is
not sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dil.errors import RefusedAnswer, SourceContractError, WriteError
from dil.model.destination import EgressSpec
from dil.model.json import JsonObject, JsonValue, compact
from dil.model.secret import OpenedText
from dil.model.task import AnswerCount, AttemptId, StagedFile
from dil.storage import Folder
from dil.writing.sink import MeasuredFile

MEMBER = "_failed"
REFUSED_NAME = "failed-"
_SHOWN = 1000


class RefusedRows:
    """Writes and counts the refused rows of one attempt, each with the reason.

    Every line names the attempt; ``clean`` masks the job's secrets in a text. ``answers`` are all
    refusals so far, by the number of the request, without secrets.
    """

    def __init__(
        self,
        folder: Folder,
        spec: EgressSpec,
        attempt: AttemptId,
        clean: Callable[[str], str],
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._attempt = attempt
        self._clean = clean
        self._file: MeasuredFile | None = None
        self._counts: Counter[int] = Counter()
        self.answers: list[tuple[int, RefusedAnswer]] = []

    def keep(self, row: JsonObject, number: int, key: str, answer: RefusedAnswer) -> None:
        """Write the row of a request that the receiver refused; of a batch, write all rows.

        Args:
            row: The payload of the request: a row, or a batch of rows.
            number: The number of the request in the work unit, from 1.
            key: The key that identified the row to the receiver.
            answer: The receiver's answer, with the reason.

        Raises:
            SourceContractError: more rows were refused than the job allows.
            WriteError: the rows cannot be written.
        """
        rows = list(self._rows(row))
        self._counts[answer.status] += len(rows)
        most = self._spec.max_refused
        if most is not None and self.rows > most:
            raise SourceContractError(
                f"request {number}: HTTP status {answer.status} {answer.reason}".rstrip()
                + f"; at most {most} rows of the work unit may be refused, and {self.rows} were",
                "Check the rows and the receiver's answers, or raise ms.egress.failed.max.rows.",
            )
        text = self._clean(answer.text)[:_SHOWN]
        self.answers.append((number, RefusedAnswer(answer.status, answer.reason, text)))
        why: dict[str, JsonValue] = {
            "status": answer.status,
            "reason": answer.reason,
            "answer": text,
            "request": number,
            "idempotency_key": key,
            "work_unit": self._attempt.signature,
            "run_id": self._attempt.run_id,
            "attempt": self._attempt.number,
        }
        lines = []
        for each in rows:
            # Encrypted texts are ENC(...) again, as in the payload.
            written = {
                name: value.written if isinstance(value, OpenedText) else value
                for name, value in each.items()
            }
            member = MEMBER
            while member in each:
                member = f"_{member}"
            lines.append(f"{compact({**written, member: why})}\n")
        with _write_errors(self._folder.path):
            if self._file is None:
                path = self._folder.file(f"{REFUSED_NAME}0.json")
                self._file = MeasuredFile(self._folder.filesystem, path)
            self._file.sink.write("".join(lines).encode("utf-8", "backslashreplace"))

    @property
    def rows(self) -> int:
        """Return the number of rows that were put aside."""
        return self._counts.total()

    def counts(self) -> tuple[AnswerCount, ...]:
        """Return the numbers of rows by status."""
        return tuple(AnswerCount(*each, is_kept=True) for each in sorted(self._counts.items()))

    def finish(self) -> tuple[StagedFile, ...]:
        """End the file and return it, durable; return no file if no row was refused.

        Raises:
            WriteError: the file cannot be made durable.
        """
        if self._file is None:
            return ()
        file, self._file = self._file, None
        with _write_errors(self._folder.path):
            return (file.finish(self.rows),)

    def abort(self) -> None:
        """Close the file; the attempt's folder is deleted as a whole."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _rows(self, payload: JsonObject) -> Iterator[JsonObject]:
        batch = payload.get(self._spec.batch_field) if self._spec.batch_field else None
        if not isinstance(batch, list):
            yield payload
            return
        for row in batch:
            assert isinstance(row, dict)  # noqa: S101 - batches are made of rows
            yield row


@contextmanager
def _write_errors(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{folder}: {error.strerror or error}",
            "Check free space and permissions there, then run the job again.",
        ) from error
