"""The parsed job of one ``.conf`` file: frozen, picklable, with nothing left to interpret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dil.model.csv_settings import CsvSpec
from dil.model.database_address import DatabaseAddress
from dil.model.derived import DedupeSpec, WindowSpec
from dil.model.destination import (
    AuditSpec,
    CatalogSpec,
    EgressSpec,
    Layout,
    MergeSpec,
    TableFormat,
    TableSpec,
    WarehouseSpec,
)
from dil.model.event_time import EventTimeSpec
from dil.model.grace import GraceSpec, ProbeRest
from dil.model.interval import SubRange
from dil.model.json import JsonValue, compact
from dil.model.properties import Properties
from dil.model.schema import ContractMode, QuarantineSpec, Schema
from dil.model.secondary import SecondarySpec
from dil.model.secret import Secret, SecretUrl
from dil.model.settings import (
    DerivedField,
    FailCondition,
    Pagination,
    Parameter,
    SchemaCleansing,
    SessionKeyField,
)
from dil.model.stream import StreamSpec
from dil.model.timelabels import TimelabelSpec
from dil.model.work_unit import WorkUnit

DEFAULT_ZONE = "America/Los_Angeles"


@dataclass(frozen=True, slots=True)
class ClassRef:
    """A plug-in class that was found and checked on the driver: module and qualified name."""

    module: str
    qualname: str

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}"


class TableType(StrEnum):
    """``extract.table.type``."""

    SNAPSHOT_ONLY = "SNAPSHOT_ONLY"
    SNAPSHOT_APPEND = "SNAPSHOT_APPEND"
    APPEND_ONLY = "APPEND_ONLY"


class CommitPolicy(StrEnum):
    """``job.commit.policy``; ``partial`` is read as SUCCESSFUL."""

    FULL = "full"
    SUCCESSFUL = "successful"


class PublishMode(StrEnum):
    """``ms.publish.mode`` (rule U14)."""

    APPEND = "append"
    REPLACE = "replace"
    WINDOW_REPLACE = "window_replace"
    MERGE = "merge"


class OutputFormat(StrEnum):
    """``writer.output.format``; the value is the file name extension."""

    AVRO = "avro"
    PARQUET = "parquet"
    ORC = "orc"
    JSON = "json"
    CSV = "csv"


class PathType(StrEnum):
    """``writer.file.path.type`` (rule U2)."""

    DEFAULT = "default"
    NAMESPACE_TABLE = "namespace_table"
    TABLENAME = "tablename"


@dataclass(frozen=True, slots=True)
class PlanningSpec:
    """All settings of the planner; texts of instants are kept as written.

    ``start`` and ``end`` are the watermark's ``from`` and ``to``. ``units`` are compact JSON
    objects in order, None if activation rows define them. ``composite`` holds the sub-ranges in the
    order written and is empty for a plain partition. ``limit`` is the most work units that a run
    takes, None for no limit. The range ends at least ``delay_ms`` before now. ``zone`` is the zone
    of texts that name none. ``of_source`` says that the source itself names the units. If each
    unit is read once, ``once`` says how units are distinguished: by ``version`` or ``path``.
    ``is_dated`` says that the job has a range of time; else all windows are the same window, which
    the job did not ask for. ``grace_ms`` is the grace period of runs; if ``grace`` says that runs
    measure the period, ``grace_ms`` applies until enough is measured. ``probed`` is the place from
    which to resume a probe that was cut off.
    """

    datetime_name: str = "datetime"
    start: str = "2019-01-01"
    end: str = "-"
    unit_name: str = "unit"
    units: tuple[str, ...] | None = ("{}",)
    partition: str = "none"
    composite: tuple[SubRange, ...] = ()
    partial: bool = True
    grace_ms: int = 0
    abstinent_ms: int = 0
    delay_ms: int = 0
    backfill: bool = False
    table_type: TableType = TableType.SNAPSHOT_ONLY
    is_full: bool = False
    dynamic_full_load: bool = True
    limit: int | None = 500
    min_units: int = 0
    pacing_s: int = 0
    zone: str = DEFAULT_ZONE
    ignore_history: bool = False
    read_from_partition_start: bool = False
    of_source: bool = False
    once: str = ""
    timelabel: TimelabelSpec | None = None
    is_dated: bool = False
    grace: GraceSpec = field(default_factory=GraceSpec)
    probed: ProbeRest | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that cut the range: one for each sub-range, or the partition's."""
        return tuple(each.word for each in self.composite) or (self.partition,)

    @property
    def grace_range_ms(self) -> tuple[int, int]:
        """Return the shortest and the longest grace period that a run may have, in ms."""
        if not self.grace.is_measured:
            return self.grace_ms, self.grace_ms
        return min(self.grace.low_ms, self.grace_ms), max(self.grace.high_ms, self.grace_ms)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """The source of rows. ``uri`` may hold ``{{variables}}``."""

    connector: ClassRef
    uri: str
    username: Secret | None = None
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class PreprocessorSpec:
    """One filter over the bytes of responses; ``name`` is its name in the job file."""

    name: str
    filter: ClassRef
    parameters: Mapping[str, str | Secret] = field(default_factory=dict)


@dataclass(slots=True)
class Plugins:
    """The classes of a job; a class that could not be found is None."""

    connector: ClassRef | None = None
    extractor: ClassRef | None = None
    converters: tuple[ClassRef, ...] = ()
    preprocessors: tuple[PreprocessorSpec, ...] = ()
    destination: ClassRef | None = None
    writer: ClassRef | None = None

    @property
    def refs(self) -> tuple[ClassRef, ...]:
        """Return all classes that were found."""
        own = (self.destination, self.writer)
        found = (self.connector, self.extractor, *self.converters, *own)
        return (*filter(None, found), *(spec.filter for spec in self.preprocessors))


@dataclass(frozen=True, slots=True)
class ExpansionSpec:
    """Limits of the bytes that preprocessors make from received bytes; None is no limit.

    ``ratio`` applies only after more than ``floor`` bytes were made.
    """

    ratio: int | None = 250
    bytes: int | None = 100 * 1024**3
    floor: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class ExtractionSpec:
    """The settings by which responses become rows, and by which pages are requested.

    ``failing`` is the condition of answers that report a failure at a path of their own.
    ``cleansing`` is None if the names of columns stay as they are. ``text_columns`` are columns of
    the dataset that hold text. If columns are inferred, numbers in text columns stay as the source
    writes them, except in ``key_columns``: keys distinguish rows, so a number has only one text
    there. If ``key_columns`` is None, any column may be a key.
    ``known_columns`` are all columns that the dataset has from the source, empty if they are not
    known or the job describes them. ``memory_bytes`` is the most memory that the reading process
    may take, 0 for no limit; if it is None, the process finds out its share of the machine.
    ``most_columns`` limits the columns of rows, including the members of records, if the job does
    not name them; 0 is no limit.
    """

    extractor: ClassRef
    parameters: tuple[Parameter, ...] = ()
    pagination: Pagination = field(default_factory=Pagination)
    session: SessionKeyField | None = None
    failing: FailCondition | None = None
    total_count_field: str = ""
    call_interval_ms: int = 0
    wait_timeout_s: int = 600
    data_field: str = ""
    data_field_optional: bool = False
    csv: CsvSpec = field(default_factory=CsvSpec)
    output_schema: Schema | None = None
    filters_by_schema: bool = True
    cleansing: SchemaCleansing | None = None
    default_types: tuple[tuple[str, str], ...] = ()
    charset: str = "UTF-8"
    extra_content_types: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    delta_fields: tuple[str, ...] = ()
    min_records: int = 0
    egress: EgressSpec = field(default_factory=EgressSpec)
    preprocessors: tuple[PreprocessorSpec, ...] = ()
    expansion: ExpansionSpec = field(default_factory=ExpansionSpec)
    memory_bytes: int | None = None
    most_columns: int = 20_000
    text_columns: frozenset[str] = frozenset()
    key_columns: frozenset[str] | None = frozenset()
    known_columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ConversionSpec:
    """The settings of the conversion of rows between extractor and writer.

    ``encrypted_fields`` are dot paths in the names of the source. ``keeps_columns`` says that
    columns of the dataset that the rows lack are written as null. The formats are Joda patterns,
    tried in order; ``zone`` applies to texts that name no zone. A work unit fails if more than
    ``max_failures`` of its rows are put aside. ``target`` are the columns of the rows that a
    normaliser or range generator makes.
    """

    converters: tuple[ClassRef, ...] = ()
    encrypted_fields: tuple[str, ...] = ()
    keeps_columns: bool = False
    derived_fields: tuple[DerivedField, ...] = ()
    date_formats: tuple[str, ...] = ("yyyy-MM-dd HH:mm:ss",)
    timestamp_formats: tuple[str, ...] = ("yyyy-MM-dd HH:mm:ss",)
    time_formats: tuple[str, ...] = ("HH:mm:ss",)
    zone: str = "UTC"
    binary_charset: str = "UTF8"
    max_failures: int = 0
    target: Schema = ()
    contract: ContractMode = ContractMode.EVOLVE
    quarantine: QuarantineSpec = field(default_factory=QuarantineSpec)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The settings of HDFS for a file; None leaves them to the cluster."""

    copies: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """``ms.writer.class``: a class of the job's own, and the properties that it reads."""

    ref: ClassRef
    properties: Properties


@dataclass(frozen=True, slots=True)
class WritingSpec:
    """The settings of files. ``codec`` is a property word: DEFLATE, SNAPPY, NOCOMPRESSION.

    ``own`` is set if a class of the job's own writes the files; ``format`` then decides the types
    of the columns. ``file_name`` is the template of the names of dumped files, empty for a job of
    rows. ``file_prefix`` is the beginning of the names of files of rows. ``system_columns`` say
    where a row comes from. If columns or labels separate the rows, at most ``most_open_files``
    files are written at once. ``owner`` and ``group`` are names of this machine, empty for the
    owner and group of the process.
    """

    format: OutputFormat = OutputFormat.AVRO
    codec: str = ""
    deflate_level: int = 9
    record_count_in_names: bool = False
    target_bytes: int = 128 * 1024 * 1024
    row_group_rows: int = 65_536
    epoch_seconds: bool = False
    record_name: str = ""
    record_namespace: str = ""
    file_name: str = ""
    file_prefix: str = "part"
    blocks: Blocks = field(default_factory=Blocks)
    system_columns: tuple[str, ...] = ()
    most_open_files: int = 64
    owner: str = ""
    group: str = ""
    own: WriterSpec | None = None

    @property
    def time_unit_us(self) -> int:
        """Return the unit of times in files, in microseconds; fractions are rounded to the past."""
        if self.format is not OutputFormat.AVRO:
            return 1
        return 1_000_000 if self.epoch_seconds else 1_000


@dataclass(frozen=True, slots=True)
class DestinationSpec:
    """``ms.destination.class``: a class of the job's own, and the properties that it reads.

    ``secrets`` are the names of secrets that no other class of the job declares.
    """

    ref: ClassRef
    properties: Properties
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishingSpec:
    """The settings of publishing: the place of visible files, and the mode.

    ``final_dir`` is an absolute path or URI. ``dataset_path`` is the dataset's folder below
    ``final_dir``, and ``run_folder`` says that each run has a folder of its own in it (path type
    default). Permissions are mode bits, None for the file system's default; ``group`` is the group
    of folders and files, empty for the file system's default. ``merge`` is set for the mode
    ``merge``, ``warehouse`` if rows go into a database, and ``destination`` if rows go to a class
    of the job's own; staging is below ``final_dir`` then. ``catalog`` is the table under which a
    catalog registers the dataset's folder. ``shares_files`` says that small work units of a run
    share files. ``has_side_table`` says that late rows go beside the dataset; ``keeps_changelog``
    says that changed rows are recorded beside it; ``replaces_once`` that ``-D`` lets this one run
    replace the dataset, which the job's other runs do not; ``usually_appends`` that the job's runs
    without ``-D`` append.
    """

    final_dir: str
    dataset_path: str
    run_folder: bool = False
    mode: PublishMode = PublishMode.APPEND
    extract_id_zone: str = "UTC"
    dir_mode: int | None = None
    file_mode: int | None = None
    group: str = ""
    layout: Layout = Layout.DEFAULT
    merge: MergeSpec | None = None
    table: TableSpec = field(default_factory=TableSpec)
    warehouse: WarehouseSpec | None = None
    catalog: CatalogSpec | None = None
    shares_files: bool = False
    has_side_table: bool = False
    destination: DestinationSpec | None = None
    keeps_changelog: bool = False
    replaces_once: bool = False
    usually_appends: bool = False

    @property
    def keeps_files(self) -> bool:
        """Return whether rows are in files of the dataset's folder, and not loaded elsewhere."""
        return self.warehouse is None and self.destination is None

    @property
    def place_key(self) -> str:
        """Return the name of the property that names the destination."""
        if self.destination is not None:
            return "ms.destination.class"
        return "data.publisher.final.dir" if self.warehouse is None else "ms.warehouse.url"

    @property
    def relation(self) -> str:
        """Return the table or view of a database that has the rows; empty text for files."""
        return "" if self.warehouse is None else self.warehouse.relation

    @property
    def is_one_folder_of_files(self) -> bool:
        """Return whether one folder of plain files has the rows of all runs."""
        is_files = self.keeps_files and self.table.format is TableFormat.FILES
        return is_files and not self.run_folder

    @property
    def is_of_one_time(self) -> bool:
        """Return whether the rows of a run are a snapshot that older rows do not belong to."""
        finds_missing = self.merge is not None and self.merge.deletes_missing
        return self.mode is PublishMode.REPLACE or finds_missing


@dataclass(frozen=True, slots=True)
class RunningSpec:
    """The settings by which work units run.

    Retry k waits ``(k - 1) x retry_interval_s`` seconds, or 1 to 60 seconds with jitter if
    ``retry_interval_s`` is None (rule P36). ``page_commit_s`` is the number of seconds between
    saves of progress inside a work unit, None for never.
    """

    commit_policy: CommitPolicy = CommitPolicy.FULL
    max_retries: int = 4
    retry_interval_s: int | None = None
    threads: int = 10
    lease_s: int = 60
    disabled: bool = False
    plugin_path: tuple[str, ...] = ()
    page_commit_s: int | None = None


@dataclass(frozen=True, slots=True)
class StateSpec:
    """The state store, which keeps watermarks.

    ``directory`` is the absolute path of a store in files, ``server`` is the database of a store on
    a server; one of the two is empty. ``former`` is the store that the same configuration would
    name without ``fs.uri`` and similar properties.
    """

    kind: str = "sqlite"
    directory: str = ""
    enabled: bool = True
    is_default_place: bool = True
    server: DatabaseAddress | None = None
    former: StateSpec | None = None

    @property
    def place(self) -> str:
        """Return a text without secrets that identifies this store."""
        return self.directory if self.server is None else str(self.server)


class QueryMode(StrEnum):
    """``ms.query.mode``."""

    APPEND = "append"
    FULL = "full"
    WINDOWED = "windowed"

    @property
    def reads_whole(self) -> bool:
        """Return whether the query reads all rows of its inputs, not only the new rows."""
        return self is not QueryMode.APPEND


@dataclass(frozen=True, slots=True)
class DatasetInput:
    """A dataset that a query reads as the view ``view``.

    ``dataset`` is the dataset's key in the state store. ``path`` is the job file that publishes it,
    empty if the file is not known. ``reads_late`` says that the query also reads the late rows
    beside the dataset, and ``reads_closed`` that it reads only rows of closed timelabels.
    ``keeps_changelog`` says that the publishing job is set to record changed rows.
    """

    dataset: str
    view: str
    state: StateSpec
    path: str = ""
    writing: WritingSpec = field(default_factory=WritingSpec)
    reads_late: bool = False
    keeps_changelog: bool = False
    reads_closed: bool = False


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """The query of a derived dataset.

    ``text`` is SQL, empty for a ``function``; then ``code`` is the SHA-256 of its module.
    ``max_blocks`` and ``max_rows`` limit how much of each input one run takes, None for no limit.
    ``windows`` is the query of the windowed mode. ``dedupe`` is the rule for repeated rows of the
    result, None if all rows are published. ``places`` say where the SQL was written: each has the
    offset of a character, and the file and line where the text from there on begins.
    ``holds_watermark`` says that the dataset's watermark stays as it is, because this run does not
    judge rows which other runs of the job judge by their event time.
    """

    inputs: tuple[DatasetInput, ...]
    mode: QueryMode = QueryMode.APPEND
    text: str = ""
    function: ClassRef | None = None
    code: str = ""
    max_blocks: int | None = None
    max_rows: int | None = None
    hashes_rows: bool = True
    wait_ms: int = 0
    windows: WindowSpec | None = None
    dedupe: DedupeSpec | None = None
    places: tuple[tuple[int, str], ...] = ()
    holds_watermark: bool = False

    def place_of(self, offset: int) -> str:
        """Return file and line of a character of ``text``; empty text if it comes from no file."""
        return next((place for start, place in reversed(self.places) if start <= offset), "")

    @property
    def transform(self) -> str:
        """Return the body of SetTransform as compact JSON, which suffices to repeat the query."""
        body: dict[str, JsonValue] = {
            "inputs": [each.dataset for each in self.inputs],
            "aliases": [each.view for each in self.inputs],
            "engine": "spark",
            "mode": self.mode.value,
            "query": self.text or str(self.function),
        }
        if self.windows is not None:
            body["column"] = self.windows.column
        if late := [each.dataset for each in self.inputs if each.reads_late]:
            body["late"] = late
        if closed := [each.dataset for each in self.inputs if each.reads_closed]:
            body["closed"] = closed
        if self.dedupe is not None:
            body["dedupe"] = self.dedupe.as_json()
        if self.code:
            body["code"] = self.code
        return compact(body)


@dataclass(frozen=True, slots=True)
class KeySpec:
    """The master passwords, which decrypt ENC(...) texts of data."""

    passwords: tuple[Secret, ...] = ()
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One parsed job file.

    ``path`` is the job file, ``digest`` the SHA-256 of all effective properties that decide what is
    extracted and how it is written (not of run control such as threads, retries, state).
    ``known_digests`` are the digests under which this release or an earlier one may have recorded
    the same configuration, including ``digest``; if there are none, no recorded work is reused.
    ``events`` is None for a job without event column, ``query`` for a job that reads a source,
    ``stream`` for a job that runs as a batch.
    """

    name: str
    path: str
    digest: str
    properties: Properties
    planning: PlanningSpec
    source: SourceSpec
    extraction: ExtractionSpec
    conversion: ConversionSpec
    writing: WritingSpec
    publishing: PublishingSpec
    running: RunningSpec
    state: StateSpec
    keys: KeySpec = field(default_factory=KeySpec)
    audit: AuditSpec = field(default_factory=AuditSpec)
    secondary: SecondarySpec = field(default_factory=SecondarySpec)
    known_digests: tuple[str, ...] = ()
    events: EventTimeSpec | None = None
    query: QuerySpec | None = None
    stream: StreamSpec | None = None

    def has_input(self, category: str) -> bool:
        """Return whether the job has secondary input of a category."""
        return any(each.format is None for each in self.secondary.of(category))

    def reads_again(self, unit: WorkUnit) -> bool:
        """Return whether later runs read the window of a work unit again, even without grace."""
        from_start = self.planning.read_from_partition_start and unit.high < unit.partition.high
        return self.planning.ignore_history or not self.state.enabled or from_start

    def for_tasks(self) -> Job:
        """Return the job without the credentials of state store and destination."""
        properties = self.properties.without_secrets("state.store.", "ms.warehouse.")
        publishing = self.publishing
        if publishing.warehouse is not None:
            hidden = replace(publishing.warehouse, url=SecretUrl(""))
            publishing = replace(publishing, warehouse=hidden)
        if publishing.destination is not None:
            properties = properties.without_secrets(*publishing.destination.secrets)
            bare = replace(publishing.destination, properties=Properties({}))
            publishing = replace(publishing, destination=bare)
        state = StateSpec(enabled=self.state.enabled)
        return replace(self, state=state, properties=properties, publishing=publishing, query=None)
