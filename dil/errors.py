"""Every public exception, each with a stable code.

    DilError                      DIL-ERROR            root of all
    ├── ConfigError               DIL-CONFIG           the job file is wrong; holds every Problem
    │   └── PluginError           DIL-PLUGIN-CLASS     a named class is missing or of the wrong kind
    ├── PlanningError             DIL-PLAN             conf and recorded state contradict
    ├── SourceError               DIL-SRC              the source refused; the work unit fails
    │   ├── TransientSourceError  DIL-SRC-TRANSIENT    429, 5xx, reset, time-out: try again
    │   ├── AuthenticationError   DIL-SRC-AUTH         credentials refused: all would fail alike
    │   ├── SourceContractError   DIL-SRC-CONTRACT     the answer breaks format, schema or paging
    │   ├── QuotaError            DIL-QUOTA            quota spent: go on with the next run
    │   └── UnknownOutcomeError   DIL-SRC-UNKNOWN      may have been sent: look at the receiver
    ├── ConversionError           DIL-CONVERT          a row cannot be converted
    ├── QueryError                DIL-QUERY            the query of a derived dataset failed
    ├── WriteError                DIL-WRITE            files cannot be written
    ├── PluginFailureError        DIL-PLUGIN           unexpected exception inside a plug-in
    ├── ExecutionError            DIL-EXEC             Spark failed outside the task body
    ├── CommitConflictError       DIL-COMMIT-CONFLICT  nothing landed: plan again
    ├── CommitUnknownError        DIL-COMMIT-UNKNOWN   may have landed: delete nothing, look first
    ├── StateError                DIL-STATE            store unreadable, damaged, or newer than us
    ├── LeaseHeldError            DIL-LEASE            another run of the job holds the lease
    ├── LeaseLostError            DIL-LEASE-LOST       another run took our lease
    └── RunInterruptedError       DIL-INTERRUPTED      SIGINT or SIGTERM

DIL-INTERNAL is no class: the command line and its report give this code to every other exception,
which is a defect of this program.

Codes are API: tests and callers match on them, never on the text. Constructors take plain
positional arguments so that every class survives pickling between executor and driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeVar

AnyError = TypeVar("AnyError", bound="DilError")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written: a file and a line (counted from 1), or a flag such as ``-D``.

    ``refers_to_flag`` says that the value there refers to one that ``-D`` set, and changes with it.
    """

    path: str
    line: int | None = None
    refers_to_flag: bool = False

    @property
    def is_flag(self) -> bool:
        """Return whether ``-D`` set the value, for one run."""
        return self.path.startswith("-D")

    @property
    def is_of_one_run(self) -> bool:
        """Return whether ``-D`` set the value, or a part of it, for one run."""
        return self.is_flag or self.refers_to_flag

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding about the configuration: where, which property, what is wrong, what to do."""

    origin: Origin | None
    key: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.origin}: " if self.origin else ""
        subject = f"{self.key} " if self.key else ""
        if self.origin and self.origin.path == f"-D {self.key}":
            place = "-D "  # the flag names the property already
        head = f"{place}{subject}{self.what}"
        return f"{head}\n    {self.fix}" if self.fix else head

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """Order by file, then line, then property."""
        if self.origin is None:
            return ("", 0, self.key)
        return (self.origin.path, self.origin.line or 0, self.key)


@dataclass(frozen=True, slots=True)
class RefusedAnswer:
    """The answer of a source that refuses a request for good, however often it is sent.

    ``status`` is the protocol's number of the outcome, ``reason`` is the protocol's text for it.
    ``text`` is the unchanged beginning of the answer's body; messages must not show this data.
    """

    status: int
    reason: str = ""
    text: str = field(default="", repr=False)


class DilError(Exception):
    """Root of all errors of this project: a message, and advice for the user."""

    code: ClassVar[str] = "DIL-ERROR"
    retryable: bool = False  # whether another attempt may help; see ``lasting``
    is_unsent: bool = False  # whether dil itself refused the request, before it was sent

    def __init__(self, message: str, fix: str = "") -> None:
        self.message, self.fix = _writable(message), _writable(fix or "")
        super().__init__(self.message, self.fix)

    def __str__(self) -> str:
        head = f"{self.message}  [{self.code}]"
        return f"{head}\n    {self.fix}" if self.fix else head


def _writable(text: object) -> str:
    """Return a text with lone surrogates escaped: JSON, state stores and pipes refuse them.

    Names of files have them, and answers of sources that were cut inside a character. Plug-ins may
    give an exception in place of a text.
    """
    return str(text).encode("utf-8", "backslashreplace").decode()


def lasting(error: AnyError) -> AnyError:
    """Return the error, marked as one that another attempt would meet again."""
    error.retryable = False
    return error


class ConfigError(DilError):
    """The configuration is invalid; ``problems`` holds every finding, sorted by line.

    ``notices`` are findings that are no problem; ``infos`` are the notices among them that ask for
    no action.
    """

    code = "DIL-CONFIG"
    is_unsent = True

    def __init__(
        self,
        problems: Iterable[Problem],
        notices: Iterable[Problem] = (),
        infos: Iterable[Problem] = (),
    ) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.sort_key))
        self.notices, self.infos = tuple(notices), tuple(infos)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[Problem, ...], ...]]:
        return type(self), (self.problems, self.notices, self.infos)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Return the notices that somebody should look at."""
        return tuple(each for each in self.notices if each not in self.infos)

    def __str__(self) -> str:
        return self.message

    @classmethod
    def single(cls, key: str, what: str, fix: str = "", origin: Origin | None = None) -> Self:
        """Build the error for one finding."""
        return cls([Problem(origin, key, what, fix)])

    def located(self, origin: Callable[[str], Origin | None]) -> Self:
        """Return the error; problems without a place get the place of their property."""
        placed = (
            each if each.origin else replace(each, origin=origin(each.key))
            for each in self.problems
        )
        return type(self)(placed, self.notices, self.infos)


class PluginError(ConfigError):
    """A class named in the configuration is missing, not importable, or of the wrong kind."""

    code = "DIL-PLUGIN-CLASS"


class PlanningError(DilError):
    """Configuration and recorded state contradict each other."""

    code = "DIL-PLAN"


class SourceError(DilError):
    """The source refused the request or failed; the work unit fails.

    ``refused`` is set if the source refuses only this one request; another row may be accepted.
    """

    code = "DIL-SRC"
    retryable = True
    refused: RefusedAnswer | None = None


class TransientSourceError(SourceError):
    """A temporary failure: 429, 5xx, connection reset, time-out."""

    code = "DIL-SRC-TRANSIENT"

    def __init__(self, message: str, fix: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message, fix)
        self.args = (*self.args, retry_after_s)
        self.retry_after_s = retry_after_s


class AuthenticationError(SourceError):
    """The source refused the credentials; every other work unit would fail, too."""

    code = "DIL-SRC-AUTH"
    retryable = False


class SourceContractError(SourceError):
    """The answer breaks the declared format, schema or paging rules."""

    code = "DIL-SRC-CONTRACT"


class QuotaError(SourceError):
    """The source's quota is spent; finished work units are kept, and the next run continues."""

    code = "DIL-QUOTA"
    retryable = False


class UnknownOutcomeError(SourceError):
    """It is unknown whether the source carried out a request that must not be repeated blindly."""

    code = "DIL-SRC-UNKNOWN"
    retryable = False


class ConversionError(DilError):
    """A row cannot be converted; the message names column and row, but not the value."""

    code = "DIL-CONVERT"


class QueryError(DilError):
    """The query of a derived dataset is wrong, or failed."""

    code = "DIL-QUERY"


class WriteError(DilError):
    """Staged or published files cannot be written."""

    code = "DIL-WRITE"
    retryable = True


class PluginFailureError(DilError):
    """A plug-in raised an exception that is not a DilError."""

    code = "DIL-PLUGIN"
    retryable = True


class ExecutionError(DilError):
    """Spark itself failed: no session, a lost cluster, a task that never came back."""

    code = "DIL-EXEC"


class CommitConflictError(DilError):
    """Another commit came first; this run recorded nothing, and may plan again."""

    code = "DIL-COMMIT-CONFLICT"
    retryable = True


class CommitUnknownError(DilError):
    """A commit may have been made; nothing was deleted, and the next run checks first."""

    code = "DIL-COMMIT-UNKNOWN"


class StateError(DilError):
    """The state store cannot be read, is damaged, or was written by a newer version."""

    code = "DIL-STATE"


class LeaseHeldError(DilError):
    """Another run of the same job holds the lease."""

    code = "DIL-LEASE"


class LeaseLostError(DilError):
    """Another run took this run's lease; this run must not publish."""

    code = "DIL-LEASE-LOST"


class RunInterruptedError(DilError):
    """The run was stopped by a signal; ``exit_code`` is 128 + the signal's number."""

    code = "DIL-INTERRUPTED"

    def __init__(self, message: str, fix: str = "", exit_code: int = 130) -> None:
        super().__init__(message, fix)
        self.args = (*self.args, exit_code)
        self.exit_code = exit_code
