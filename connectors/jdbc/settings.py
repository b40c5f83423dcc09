"""The job's settings of its database, read once for each attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from connectors.jdbc.cursor import key_columns
from connectors.jdbc.section import JdbcSection
from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.json import JsonObject, JsonValue
from dil.model.secret import Secret
from dil.model.settings import SchemaCleansing, flat_parameters
from dil.secrets import SecretError, SecretResolver
from dil.sections.source import DatabaseSection, SourceSection


@dataclass(frozen=True, slots=True)
class JdbcSettings:
    """The connector's view of a job.

    ``folder`` is the job file's folder, the start of relative paths of database files. ``cursors``
    are the parameters that hold the session key, ``sizes`` the parameters that hold the page size.
    If ``is_polling`` is true, the same statement runs until the key meets a condition.
    ``letters`` is the letter case of column names: none, toupper, tolower. ``columns`` are the
    columns of ``ms.output.schema``, empty if it is not set. If ``drops_others`` is true, all other
    columns are dropped. ``part`` is the range of ``split_column`` to read, None for all rows.
    ``hosts`` are other servers that values may name. ``memory_bytes`` is the memory that the
    extraction may use.
    """

    uri: str
    statement: str
    user: str = ""
    password: Secret | None = None
    folder: str = "."
    cursors: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    key_columns: tuple[str, ...] = ()
    is_polling: bool = False
    letters: str = "none"
    cleansing: SchemaCleansing | None = None
    columns: tuple[str, ...] = ()
    drops_others: bool = True
    nulls_dates: bool = False
    is_read_only: bool = True
    split_column: str = ""
    part: JsonObject | None = None
    hosts: tuple[str, ...] = ()
    memory_bytes: int = 0

    @classmethod
    def of(cls, job: Job, unit: JsonObject | None = None) -> JdbcSettings:
        """Return the settings of a parsed job; decrypt the address if it is encrypted.

        Args:
            job: The job.
            unit: The unit of the work unit; it may be a range of keys.
        """
        properties, extraction = job.properties, job.extraction
        parameters = list(flat_parameters(extraction.parameters))
        session = extraction.session
        is_polling = session is not None and session.condition is not None
        is_cursor = session is not None and not is_polling
        user = job.source.username
        jdbc, database = properties.section(JdbcSection), properties.section(DatabaseSection)
        part = (unit or {}).get("range") if database.key_column else None
        return cls(
            uri=_decrypted(job),
            statement=database.statement,
            user=user.reveal() if user else "",
            password=job.source.password,
            folder=_folder_of(job.path),
            cursors=tuple(each.name for each in parameters if each.type == "session"),
            sizes=tuple(each.name for each in parameters if each.type == "pagesize"),
            key_columns=key_columns(session.name) if session and is_cursor else (),
            is_polling=is_polling,
            letters=jdbc.letters,
            cleansing=extraction.cleansing,
            columns=tuple(column.name for column in extraction.output_schema or ()),
            drops_others=extraction.filters_by_schema,
            nulls_dates=jdbc.invalid_dates == "null",
            is_read_only=jdbc.is_read_only,
            split_column=database.key_column,
            hosts=job.properties.section(SourceSection).hosts,
            part=dict(part) if isinstance(part, Mapping) else None,
            memory_bytes=extraction.memory_bytes or 0,
        )

    def page_size(self, variables: dict[str, JsonValue]) -> int | None:
        """Return the number of rows of a full page, None if the job does not set it."""
        found = [variables.get(name) for name in self.sizes]
        return next((size for size in found if isinstance(size, int)), None)


@lru_cache(maxsize=4)  # All attempts of a task have the same job.
def _folder_of(job_path: str) -> str:
    return str(Path(job_path).resolve().parent)


def _decrypted(job: Job) -> str:
    """Return the address; all of it may be an ENC() text (rule S1)."""
    if not job.source.uri.startswith("ENC("):
        return job.source.uri
    passwords = tuple(password.reveal() for password in job.keys.passwords)
    resolver = SecretResolver({}, Path(), passwords, job.keys.strong)
    try:
        return resolver.resolve(job.source.uri, "ms.source.uri").reveal()
    except SecretError as error:
        raise ConfigError.single("ms.source.uri", error.what, error.fix) from None
