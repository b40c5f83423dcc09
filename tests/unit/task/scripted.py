"""A connector whose answers a test writes down, and the run and work unit around it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from dil import config
from dil.model.interval import Interval
from dil.model.job import Job
from dil.model.task import RunContext, TaskReport
from dil.model.work_unit import Reason, WorkUnit
from dil.spi.connector import (
    ByteSession,
    Connector,
    RequestValues,
    Response,
    RowSession,
    SessionContext,
)
from dil.task.context import Clocks
from dil.task.work_unit import run_work_unit
from tests.jobs import properties
from tests.servers.rows import DAY_MS, START_MS

NOW = START_MS + 2 * DAY_MS


@dataclass(frozen=True)
class Page:
    """One answer: rows, the cursor that follows, headers, address, or a warning without rows."""

    rows: Sequence[object] = ()
    cursor: str | None = None
    warning: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    uri: str = ""


@dataclass
class Script:
    """What each attempt is answered, page by page; an exception is raised in its place.

    The last attempt's answers are repeated. ``sessions`` are those that were opened.
    """

    attempts: list[list[Page | BaseException]]
    sessions: list[Scripted | ScriptedRows] = field(default_factory=list)

    def answers(self, attempt: int) -> list[Page | BaseException]:
        return self.attempts[min(attempt, len(self.attempts)) - 1]


SCRIPTS: dict[str, Script] = {}


class Scripted(ByteSession):
    """One attempt's session; ``asked`` are the requests that it got."""

    def __init__(self, answers: list[Page | BaseException]) -> None:
        self._answers = iter(answers)
        self.asked: list[RequestValues] = []
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def fetch(self, values: RequestValues) -> Response:
        self.asked.append(values)
        answer = next(self._answers)
        if isinstance(answer, BaseException):
            raise answer
        if answer.warning:
            return Response(None, warning=answer.warning)
        body = json.dumps({"data": answer.rows, "next": answer.cursor}).encode()
        return Response(
            io.BytesIO(body), answer.headers, content_type="application/json", uri=answer.uri
        )


class ScriptedRows(RowSession):
    """The same for a row protocol."""

    def __init__(self, answers: list[Page | BaseException]) -> None:
        self._answers = iter(answers)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        for answer in self._answers:
            if isinstance(answer, BaseException):
                raise answer
            yield pa.RecordBatch.from_pylist(answer.rows)


class ScriptedConnector(Connector):
    """Opens a session on the script that ``ms.source.uri`` names."""

    def open(self, context: SessionContext) -> ByteSession | RowSession:
        script = SCRIPTS[context.job.source.uri]
        session = self.session(script.answers(context.attempt))
        script.sessions.append(session)
        return session

    def session(self, answers: list[Page | BaseException]) -> Scripted | ScriptedRows:
        return Scripted(answers)


class RepeatingConnector(ScriptedConnector):
    """The same for a receiver that knows repeated rows."""

    @classmethod
    def may_repeat_rows(cls, job: Job) -> bool:
        del job
        return True


class ScriptedRowConnector(ScriptedConnector):
    """The same for a row protocol."""

    def session(self, answers: list[Page | BaseException]) -> Scripted | ScriptedRows:
        return ScriptedRows(answers)


class Waits:
    """Clocks whose sleeping takes no time and is written down."""

    def __init__(self, *, chance: float = 0.5, now_ms: int = NOW) -> None:
        self.slept: list[float] = []
        self._seconds = 0.0
        self.clocks = Clocks(
            now_ms=lambda: now_ms,
            monotonic=lambda: self._seconds,
            sleep=self._sleep,
            chance=lambda: chance,
        )

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._seconds += seconds


class UnitTask:
    """A job in a folder, and its one work unit, run as a task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.staging = folder / "lake" / "_staging" / "orders" / "r1"
        self.waits = Waits()

    def job(self, **changes: str) -> Job:
        kind = changes.pop("connector", "ScriptedConnector")
        facts = {
            **properties(self.folder, "http://x", **changes),
            "source.class": f"tests.unit.task.scripted:{kind}",
            "ms.source.uri": self.folder.name,
        }
        path = self.folder / "orders.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in facts.items()))
        return config.load(path, environ={}).job

    def script(self, *attempts: Sequence[Page | BaseException]) -> Script:
        """Say what each attempt is answered."""
        script = Script([list(answers) for answers in attempts])
        SCRIPTS[self.folder.name] = script
        return script

    def run(self, job: Job | None = None, unit: WorkUnit | None = None) -> TaskReport:
        """Run the work unit."""
        job = job or self.job()
        context = RunContext(job, "r1", NOW, full_extract=True, staging_dir=str(self.staging))
        return run_work_unit(context, unit or work_unit(), self.waits.clocks)

    def left(self) -> list[str]:
        """Return everything below the run's staging folder, folders too."""
        return sorted(str(path.relative_to(self.staging)) for path in self.staging.rglob("*"))


def work_unit(*, not_before: int = 0) -> WorkUnit:
    partition = Interval(START_MS, START_MS + DAY_MS)
    return WorkUnit(
        signature="s",
        low=partition.low,
        high=partition.high,
        partition=partition,
        unit_name="unit",
        unit_json='{"unit":"a"}',
        reason=Reason.NEW,
        not_before=not_before,
    )


def rows(*ids: int) -> list[dict[str, object]]:
    """Return rows of the job's schema."""
    return [
        {"id": one, "unit": "a", "updated_ms": START_MS + one, "amount": 0.5, "note": None}
        for one in ids
    ]
