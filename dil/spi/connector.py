"""The connector contract: a protocol opens a session, and the session answers requests.

A connector runs inside a task, on an executor. The task creates the connector from its class,
without arguments, so a connector need not be picklable. A connector has no paging loop: the loop in
``dil.extraction`` calls the session once for each page (docs/writing-a-connector.md).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from dil.errors import Problem, SourceContractError
from dil.model.job import Job
from dil.model.json import JsonObject, JsonValue
from dil.model.properties import Properties
from dil.model.secret import Secret
from dil.model.section import Section
from dil.model.work_unit import WorkUnit
from dil.spi.audit import AuditTrail, NoAudit
from dil.spi.coordination import Coordinator, CredentialSource, Uncoordinated
from dil.spi.request_view import RequestView
from dil.spi.shared import Shared

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PluginProperty:
    """A property of your plug-in; its name begins with ``ms.x.``.

    ``parse`` turns the text into a value, or raises ValueError with the reason why it cannot.
    """

    name: str
    meaning: str
    default: object = None
    required: bool = False
    secret: bool = False
    parse: Callable[[str], object] = str


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The context of a connector that opens a session; one per attempt.

    ``run_now`` is the time of the run (now) in epoch ms UTC. ``coordinator`` gives access to limits
    and tokens that all tasks share. ``renewed`` reads the authentication input again and returns
    its fields; None if the job has no such input (rule S11). ``audit`` is for sessions that audit
    their own requests. ``rows`` are the rows that Spark reads for the work unit, None if the
    session reads by itself. ``shared`` keeps resources that the sessions of one task share, such as
    pools of connections; None if nothing is shared.
    """

    job: Job
    work_unit: WorkUnit
    run_id: str
    run_now: int
    attempt: int
    coordinator: Coordinator = field(default_factory=Uncoordinated)
    renewed: Callable[[], Mapping[str, Secret]] | None = None
    audit: AuditTrail = field(default_factory=NoAudit)
    rows: Iterator[pa.RecordBatch] | None = None
    shared: Shared | None = None


@dataclass(frozen=True, slots=True)
class RequestValues:
    """The evaluated variables of one request (rules G31 to G35).

    ``variables`` are the values for ``{{name}}``. ``parameters`` are the declared parameters in
    order, without temporaries; they are sent if no placeholder uses them. ``given`` names those
    that the last answer gave, which are always sent (rule G34). ``page`` counts from 0.
    ``next_uri`` is the address of the next page that the last answer named, empty if it named none;
    request the address unchanged. ``payload`` is the row to send, None if no row is sent.
    ``idempotency_key`` names this row by the same text in every attempt and run. Secrets are
    revealed here, so this class does not print its values.
    """

    variables: Mapping[str, JsonValue] = field(repr=False)
    parameters: Mapping[str, JsonValue] = field(repr=False)
    page: int = 0
    next_uri: str = ""
    payload: JsonObject | None = field(default=None, repr=False)
    idempotency_key: str = ""
    given: frozenset[str] = frozenset()


@dataclass(slots=True)
class Response:
    """One answer of a byte protocol.

    ``body`` is a binary stream that the caller reads once and closes; None means that the answer
    has no content (an HTTP warning, 204). ``headers`` has the names as received; use ``header`` for
    look-ups. ``content_type`` is the lower-case media type without parameters, empty if unknown.
    ``location`` names the request in messages, without secrets. ``uri`` is the address that
    answered, after redirects; relative links are resolved from it. ``status`` is the protocol's
    number for the outcome, 0 if it has none. ``has_more`` is true if the session has another answer
    of its own, such as the next file of a folder: then the loop calls the session again, whatever
    the job's paging rules say (docs/files.md). ``has_end`` is false if the protocol does not say
    where the body ends, so that a body that was cut off looks whole. ``is_unread`` is true if the
    answer had content that may have been rows, and the session did not read it.
    """

    body: BinaryIO | None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content_type: str = ""
    checks_content_type: bool = False
    location: str = ""
    warning: str = ""
    uri: str = field(default="", repr=False)
    status: int = 0
    has_more: bool = False
    has_end: bool = True
    is_unread: bool = False

    def header(self, name: str) -> str | None:
        """Return a header's value by its name in any letter case, None if there is none."""
        wanted = name.lower()
        for key, value in self.headers.items():
            if key.lower() == wanted:
                return value
        return None


class Session(ABC):  # noqa: B024 - close has a default, a plain session is no session
    """An open connection of one attempt; it is always closed at the attempt's end.

    ``seconds_waited`` is the time for which the session itself has held requests back so far,
    before retries or for a source's rate limit. A session that waits adds to ``seconds_waited``,
    and the run's counters include this time. ``retries`` counts the failed requests that the
    session has sent again by itself; the report adds them to the calls of the session. ``audits``
    is true if the session itself records each of its requests, including repetitions, in the
    context's ``audit``; for other sessions the task records one request for each call.
    """

    audits: ClassVar[bool] = False
    seconds_waited: float = 0.0
    retries: int = 0

    def wait_to_retry(self, seconds: float, sleep: Callable[[float], object] = time.sleep) -> None:
        """Wait before a request is sent again; count the wait and the retry."""
        sleep(seconds)
        self.seconds_waited += seconds
        self.retries += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def describe(self, values: RequestValues) -> RequestView | None:
        """Return the request for these values without sending it; None if it is unknown.

        `dil preview`, `dil plan --show-request` and the log of `dil run -v` show the request with
        masked secrets.
        """
        del values
        return None

    def close(self) -> None:  # noqa: B027 - many sessions have nothing to close
        """Release the session's resources; the caller calls this once."""


class ByteSession(Session):
    """A protocol that answers with bytes: HTTP, files."""

    @abstractmethod
    def fetch(self, values: RequestValues) -> Response:
        """Send one request and return its answer.

        Raises:
            TransientSourceError: the failure may pass.
            AuthenticationError: the source refused the credentials.
            SourceError: any other refusal.
        """

    def waits_to_repeat(self, response: Response, failure: str, repeats: int) -> bool:
        """Wait before a request is sent again whose answer reports a failure that passes.

        Return False to give up: then the attempt fails, as it always does in this base class.

        Args:
            response: The answer; its body was read or closed.
            failure: The failure, as a sentence for the log.
            repeats: How often this request was sent again before.

        Raises:
            QuotaError: the source asks for a longer wait than the job allows.
        """
        del response, failure, repeats
        return False


class RowSession(Session):
    """A protocol that answers with rows: databases.

    ``location`` names the source in messages, without secrets; empty if it was not set.
    ``left_out`` are the source's columns that the session has left out so far because of
    ``ms.output.schema``; the run reports them.
    """

    location: str = ""
    left_out: tuple[str, ...] = ()

    @abstractmethod
    def read(self, values: RequestValues) -> Iterator[pa.RecordBatch]:
        """Send one request and yield its rows as record batches of one schema."""


@dataclass(frozen=True, slots=True)
class SparkRead:
    """The query that Spark reads for one work unit, in one partition.

    ``format`` names one of Spark's data sources, ``options`` are its options, ``secrets`` its
    secret options. ``location`` names the source in messages, without secrets.
    """

    format: str
    location: str
    options: Mapping[str, str] = field(repr=False)
    secrets: Mapping[str, Secret] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SparkReader:
    """Lets Spark read a job's work units instead of the connector's sessions.

    The driver calls ``read`` once for each attempt, with the values of its only request; ``read``
    may raise any DilError. ``jars`` are files of this machine that Spark needs.
    """

    read: Callable[[RequestValues], SparkRead]
    jars: tuple[str, ...] = ()


class Connector(ABC):
    """A protocol: inherit from this class, and name your class in ``source.class``.

    ``sections`` are the classes that declare your own ``ms.x.*`` properties;
    ``context.job.properties.section(YourSection)`` returns their values. ``properties`` lists such
    properties one by one; their parsed values are found by name in ``context.job.properties``.
    ``unit_properties`` are the properties by which a job takes its units from your connector, for
    example ``ms.source.files.once`` or ``ms.jdbc.partition.column``; see ``units``.

    ``reads_window`` is true if sessions use ``low`` and ``high`` of their work unit. If it is
    false, an attempt may continue after pages that were kept for another window, unless a parameter
    is a watermark. A subclass does not inherit the value from its base class, but must set it
    itself.

    ``overlaps`` is true if sessions mostly wait for a network, and if several sessions may be open
    in one process, each in a thread of its own: then a task reads several work units at once. A
    subclass must set this value itself, too.
    """

    sections: ClassVar[tuple[type[Section], ...]] = ()
    properties: ClassVar[tuple[PluginProperty, ...]] = ()
    unit_properties: ClassVar[frozenset[str]] = frozenset()
    reads_window: ClassVar[bool] = True
    overlaps: ClassVar[bool] = False

    @classmethod
    def check(cls, properties: Properties) -> Iterable[Problem]:
        """Return the problems of the properties; runs on the driver, before any I/O."""
        del properties
        return ()

    @classmethod
    def warnings(cls, properties: Properties) -> Iterable[Problem]:
        """Return settings that are allowed but seldom intended; each run prints them."""
        del properties
        return ()

    @classmethod
    def credentials(cls, job: Job) -> CredentialSource | None:
        """Return the source of tokens, None if the job needs none; runs on the driver."""
        del job
        return None

    @classmethod
    def for_tasks(cls, job: Job) -> Job:
        """Return the job as tasks get it: without the secrets that only ``credentials`` needs."""
        return job

    @classmethod
    def may_repeat_rows(cls, job: Job) -> bool:
        """Return whether a payload row may be sent again if it is unknown whether it arrived.

        If not, a person must check a lost work unit before its rows are sent again.
        """
        del job
        return False

    @classmethod
    def units(cls, job: Job, now_ms: int) -> Iterable[JsonObject]:
        """Yield the units that the source itself names, in order; on the driver, before planning.

        It is called only if the job takes its units from the source. Such a unit is a file of a
        folder, in the member ``file``, or a range of a key column. ``now_ms`` is the time of the
        run (now) in epoch ms UTC. Equal units are the same unit in all runs.

        Raises:
            SourceError: the source refuses the request, or cannot be reached.
            SourceContractError: this protocol has no such units.
        """
        del now_ms
        raise SourceContractError(
            f"{cls.__name__} names no units: it has neither files nor ranges of keys",
            f"Declare the units of {job.name} in ms.watermark or ms.secondary.input.",
        )

    @classmethod
    def changes(cls, job: Job) -> Problem | None:
        """Return the setting by which a request may change the source, None if requests only read.

        ``dil preview`` asks the user before it sends such a request. A connector need not report
        that it sends the rows of ``payload`` input.
        """
        del job
        return None

    @classmethod
    def spark_reader(cls, job: Job) -> SparkReader | None:
        """Return the reader of the job's rows in Spark, None if sessions read them; on the driver.

        If there is a reader, sessions yield the rows of their context as their only page.

        Raises:
            ConfigError: a file or library that the reader needs is missing.
        """
        del job
        return None

    @abstractmethod
    def open(self, context: SessionContext) -> ByteSession | RowSession:
        """Return a session for one attempt of one work unit; runs in a task."""
