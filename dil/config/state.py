"""The state store: its properties, and the part of a job that says where watermarks are kept.

See rules F15 and S1.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from dil.config.findings import Findings
from dil.config.read_context import path_of
from dil.config.values import ValueProblem, duration_ms
from dil.model.database_address import DatabaseAddress, DatabaseUrlError, Server
from dil.model.interval import DAY_MS
from dil.model.job import StateSpec
from dil.model.json import JsonValue, as_text
from dil.model.properties import Properties
from dil.model.secret import Secret
from dil.model.section import (
    ONE_OF,
    Bool,
    PathText,
    Reported,
    Section,
    Text,
    ValueType,
    Written,
    no_effect,
    prop,
)
from dil.sections.file_systems import FileSystemsSection
from dil.sections.reading import Finding, ReadContext, ShapeError, as_object, unknown_members
from dil.storage.locations import PathError, is_local, local_path

DEFAULT_STATE_FOLDER = ".dil"
SERVER_KINDS = frozenset(server.value for server in Server)

ENABLED, DIRECTORY = "state.store.enabled", "state.store.dir"
KIND, DATASET_KIND = "state.store.type", "dataset.state.store.type"
_URL = "state.store.db.url"
_USER = "state.store.db.user"
_PASSWORD = "state.store.db.password"  # noqa: S105 - the name of a property
_EXAMPLES = {
    Server.POSTGRESQL: "postgresql://db.example.com:5432/dil",
    Server.MYSQL: "mysql://db.example.com:3306/dil",
}
RETENTION, STATE, PUBLISHED, LOG = "ms.retention", "state.store", "publish.dir", "log"
ASIDE = "aside"
_RETAINED = (STATE, PUBLISHED, LOG, ASIDE)
# Records without a period are kept. LinkedIn's DIL names other periods, and never acted on them.
_RETENTION = {STATE: 90 * DAY_MS}


def _retention(value: JsonValue, _around: ReadContext) -> dict[str, int]:
    """Return the retention periods in ms; members that are left out keep their default."""
    periods, findings = dict(_RETENTION), list[Finding]()
    for name, text in as_object(value).items():
        if name not in _RETAINED:
            findings.extend(unknown_members([name], _RETAINED))
            continue
        try:
            periods[name] = duration_ms(as_text(text))
        except ValueProblem as problem:
            findings.append((f"{name} {problem.what}", problem.fix))
    if findings:
        raise ShapeError(*findings)
    return periods


_Kind: TypeAlias = Annotated[
    Literal["sqlite", "fs", "filelog", "postgresql", "mysql", "noop"], ONE_OF
]
# Commands that do not need the source need the state store.
_StateSecret: TypeAlias = Annotated[
    Secret, Written(ValueType.STRING, secret=True, is_always_read=True)
]
_Retention: TypeAlias = Annotated[
    dict[str, int],
    Written(
        ValueType.JSON_OBJECT,
        read=_retention,
        members=(
            (
                STATE,
                "ISO duration",
                "Age of state that `dil state prune` deletes; P90D if left out.",
            ),
            (
                PUBLISHED,
                "ISO duration",
                "Age of published files that `dil state expire` deletes; kept if left out.",
            ),
            (
                LOG,
                "ISO duration",
                "Age of runs whose rows, failures and reports `dil state prune` deletes; as "
                "`state.store` if left out.",
            ),
            (
                ASIDE,
                "ISO duration",
                "Age of copies of withdrawn files, of rows that were put aside or refused, and of "
                "records of requests that `dil state prune` deletes; kept if left out.",
            ),
        ),
    ),
]


@dataclass(frozen=True, slots=True)
class StateSection(Section):
    """The store of watermarks, and how long they are kept."""

    enabled: Bool = prop(
        ENABLED,
        "If false, no watermarks are kept and each run sees no history.",
        default=True,
        identity=False,
    )
    kind: _Kind = prop(
        KIND,
        "Kind of store. fs on a local path is sqlite in that folder; filelog is a tree of "
        "files that needs no locks, for network mounts; postgresql and mysql (MariaDB too) "
        "keep it on a server; noop keeps nothing.",
        default="sqlite",
        identity=False,
    )
    dataset_kind: _Kind | None = prop(
        DATASET_KIND,
        "Wins over `state.store.type`.",
        default=None,
        identity=False,
    )
    directory: PathText = prop(
        DIRECTORY,
        "Folder of the store. A relative path starts at the job file's folder; unset: `.dil` "
        "there. A place elsewhere, such as `s3://bucket/folder`, is for the file log.",
        default="",
        example="/data/state",
        identity=False,
    )
    state_store_compressed_values: Bool = no_effect(
        "state.store.compressedValues", "Gobblin's compression of stored values.", default=True
    )
    url: _StateSecret | None = prop(
        _URL,
        "Database of the store, needed for types postgresql and mysql: "
        "`postgresql://host:5432/database` or `mysql://host:3306/database`, options after `?`. A "
        "`jdbc:` URL is translated.",
        default=None,
        identity=False,
    )
    user: _StateSecret | None = prop(
        _USER,
        "User of that database; wins over one in the URL.",
        default=None,
        identity=False,
    )
    password: _StateSecret | None = prop(
        _PASSWORD,
        "Password of that database; wins over one in the URL.",
        default=None,
        identity=False,
    )
    state_store_db_table: Text = no_effect(
        "state.store.db.table",
        "Gobblin's one table; the store here has several, whose names are fixed. Give it a "
        "database or a schema of its own.",
        default="gobblin_job_state",
        reported=Reported.ALONE,
    )
    state_store_db_jdbc_driver: Text = no_effect(
        "state.store.db.jdbc.driver",
        "Java driver; not needed outside a JVM.",
        default="com.mysql.cj.jdbc.Driver",
    )
    retention: _Retention = prop(
        RETENTION,
        "How long state, published files and records of runs are kept. A run deletes none of them: "
        "`dil state prune` follows `state.store`, `log` and `aside`, and `dil state expire` "
        "follows `publish.dir`.",
        default_factory=_RETENTION.copy,
        example='{"state.store": "P90D", "publish.dir": "P731D", "log": "P30D", "aside": "P90D"}',
        identity=False,
    )


def state_section(values: Properties, folder: Path, findings: Findings) -> StateSpec:
    """Return the state part of a job: the store of its watermarks.

    The type ``fs`` means SQLite on a local path, and the file log elsewhere (rule F15). If
    ``fs.uri`` puts the folder elsewhere, a job without a store type uses the file log, too. For the
    type ``noop``, the file log then keeps only the lease.
    """
    section = values.section(StateSection)
    kind: str = section.dataset_kind or section.kind
    if kind in SERVER_KINDS:
        server = _server_address(values, kind, findings)
        return StateSpec(kind, enabled=section.enabled, is_default_place=False, server=server)
    if kind != "noop":
        what = f"has no effect, because state.store.type is {kind}"
        fix = "Set state.store.type=postgresql or mysql to keep the state on that server."
        findings.unused((_URL,), what, fix)
    written, system = section.directory, values.section(FileSystemsSection).of_state
    directory = path_of(
        written or DEFAULT_STATE_FOLDER,
        DIRECTORY,
        folder,
        findings,
        system=system if written else None,
    )
    is_enabled = section.enabled and kind != "noop"
    former = None
    if section.enabled and not is_local(directory):
        # The local store that the job would have if no property named a file system.
        with suppress(PathError):  # the path has a scheme
            path = str(local_path(written, folder))
            was = "filelog" if kind == "filelog" else "sqlite"
            former = StateSpec(was, path, is_default_place=False)
    is_chosen = bool({KIND, DATASET_KIND} & values.explicit)
    if kind == "fs" or (former is not None and (kind == "noop" or not is_chosen)):
        kind = "sqlite" if is_local(directory) else "filelog"
    if kind != "filelog" and not is_local(directory):
        findings.problem(
            DIRECTORY,
            f"is {directory}, and state.store.type={kind} needs a folder of this machine",
            "Set state.store.type=fs, or name a local folder.",
        )
    return StateSpec(
        kind=kind,
        directory=directory,
        enabled=is_enabled,
        is_default_place=not written,
        former=former,
    )


def _server_address(values: Properties, kind: str, findings: Findings) -> DatabaseAddress | None:
    """Return the database that keeps the state; None if there was a problem.

    No finding shows the URL: it may hold a password.
    """
    from dil.text.database_url import read_database_url  # servers are rare

    server = Server(kind)
    example = f"Write {_EXAMPLES[server]}, with {_USER} and {_PASSWORD}."
    # A command that does not need the source's secrets has only notices about unread secrets. It
    # connects to this server all the same, and must not do so with an empty password.
    for each in [each for each in findings.notices if each.key in {_URL, _USER, _PASSWORD}]:
        findings.notices.remove(each)
        what = f"{each.what}, and so must every command that looks at the state"
        findings.problem(each.key, what, each.fix, each.origin)
    if not findings.is_sound(_URL):
        return None
    url = values.section(StateSection).url
    if not url:
        asked = values.origin(DATASET_KIND) or values.origin(KIND)
        what = f"is needed for state.store.type={kind}, and not set"
        findings.problem(_URL, what, example, asked)
        return None
    try:
        found = read_database_url(url.reveal())
    except DatabaseUrlError as error:
        findings.problem(_URL, error.what, error.fix)
        return None
    if found.address.server is not server:
        findings.problem(
            _URL,
            f"names a {found.address.server} server, and state.store.type is {kind}",
            f"Set state.store.type={found.address.server}, or correct the URL.",
        )
        return None
    if found.ignored:
        findings.notice(
            _URL,
            f"has options of the Java driver that mean nothing here: {', '.join(found.ignored)}",
            "They are ignored; leave them out.",
        )
    section = values.section(StateSection)
    return found.address.with_login(section.user, section.password)
