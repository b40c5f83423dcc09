"""The tables of the SQL state stores, and the column types of each server.

``ColumnWords`` has the column types of one engine. Names are compared by bytes everywhere: case,
accents and trailing blanks count, and texts are ordered by code point. Keys contain no long texts:
signatures, unit keys and URIs have their SHA-256 as keys (rule C19).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.errors import StateError

FORMAT = 2
OLDEST_FORMAT = 1  # the oldest that is still read, and is upgraded


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """Column types of one server.

    ``blob`` keeps all bytes, ``text`` is long, ``digest`` has hexadecimal digits, ``name`` has up
    to 200 characters and is part of a key; ``format_key`` gives the table of the format a key where
    servers may refuse tables without one; ``table_options`` follow each table. ``like`` creates an
    empty table with the columns and the key of another table.
    """

    blob: str
    text: str
    digest: str
    name: str
    format_key: str = ""
    table_options: str = ""
    has_writers: bool = True
    like: str = "CREATE TABLE {copy} LIKE {table}"


SQLITE = ColumnWords(blob="BLOB", text="TEXT", digest="TEXT", name="TEXT", has_writers=False)
POSTGRESQL = ColumnWords(
    blob="BYTEA",
    text='TEXT COLLATE "C"',
    digest='VARCHAR(80) COLLATE "C"',
    name='VARCHAR(200) COLLATE "C"',
    like="CREATE TABLE {copy} (LIKE {table} INCLUDING ALL)",
)


def mysql_words(collation: str) -> ColumnWords:
    """Return the column types of a MySQL server for a binary collation without padding."""
    return ColumnWords(
        blob="LONGBLOB",
        text="LONGTEXT",
        digest="VARCHAR(80) CHARACTER SET ascii COLLATE ascii_bin",
        name="VARCHAR(200)",
        format_key=", PRIMARY KEY (format)",
        table_options=" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4"
        f" COLLATE {collation}",
    )


# On a server this row is each job's write lock, and ``mark`` names the last committed transaction,
# so that a lost answer can be looked up. SQLite has a lock of its own.
_WRITERS = (
    "CREATE TABLE writer (dataset_id {name} NOT NULL, mark VARCHAR(40) NOT NULL,\n"
    "  PRIMARY KEY (dataset_id));"
)

_TABLES = """
CREATE TABLE state_format (format INTEGER NOT NULL{format_key});
CREATE TABLE mc_block (
  dataset_id {name} NOT NULL, seq BIGINT NOT NULL, block_hash {digest} NOT NULL,
  prev_hash {digest}, event_kind VARCHAR(40) NOT NULL, system_time VARCHAR(27) NOT NULL,
  has_data SMALLINT NOT NULL, payload {blob} NOT NULL, PRIMARY KEY (dataset_id, seq));
CREATE UNIQUE INDEX mc_block_hash ON mc_block (dataset_id, block_hash);
CREATE INDEX mc_block_kind ON mc_block (dataset_id, event_kind, seq);
CREATE TABLE mc_head (
  dataset_id {name} NOT NULL, ref VARCHAR(50) NOT NULL, block_hash {digest} NOT NULL,
  seq BIGINT NOT NULL, data_seq BIGINT, config_seq BIGINT, schema_seq BIGINT,
  PRIMARY KEY (dataset_id, ref));
CREATE TABLE work_unit (
  dataset_id {name} NOT NULL, unit_sha {digest} NOT NULL, unit_key {digest} NOT NULL,
  signature {text} NOT NULL, low BIGINT NOT NULL, expected_high BIGINT NOT NULL, high BIGINT,
  status VARCHAR(12) NOT NULL, attempts INTEGER NOT NULL, cursor_json {text},
  last_error {text} NOT NULL, timelabel VARCHAR(14), seq BIGINT NOT NULL,
  row_hash {digest} NOT NULL, era BIGINT NOT NULL, PRIMARY KEY (dataset_id, unit_sha));
CREATE INDEX work_unit_low ON work_unit (dataset_id, low);
CREATE INDEX work_unit_key ON work_unit (dataset_id, unit_key, low);
CREATE INDEX work_unit_open ON work_unit (dataset_id, status, low);
CREATE INDEX work_unit_key_open ON work_unit (dataset_id, unit_key, status, low);
CREATE TABLE coverage (
  dataset_id {name} NOT NULL, unit_key {digest} NOT NULL, covered_from BIGINT NOT NULL,
  covered_to BIGINT NOT NULL, tail_from BIGINT NOT NULL, tail_to BIGINT NOT NULL,
  era BIGINT NOT NULL, max_high BIGINT, lowest BIGINT NOT NULL, open_count BIGINT NOT NULL,
  PRIMARY KEY (dataset_id, unit_key));
CREATE TABLE live_file (
  dataset_id {name} NOT NULL, uri_sha {digest} NOT NULL, uri {text} NOT NULL,
  first_offset BIGINT NOT NULL, PRIMARY KEY (dataset_id, uri_sha));
CREATE TABLE intent (
  dataset_id {name} NOT NULL, run_id {name} NOT NULL, payload {text} NOT NULL,
  PRIMARY KEY (dataset_id));
CREATE TABLE run (
  dataset_id {name} NOT NULL, run_id {name} NOT NULL, started BIGINT NOT NULL,
  planned_at BIGINT NOT NULL, policy VARCHAR(20) NOT NULL, config_digest VARCHAR(80) NOT NULL,
  staging_dir {text} NOT NULL, status VARCHAR(20) NOT NULL, row_count BIGINT NOT NULL,
  file_count BIGINT NOT NULL, staged SMALLINT NOT NULL, PRIMARY KEY (dataset_id, run_id));
CREATE INDEX run_staged ON run (dataset_id, staged, started);
CREATE TABLE committed_run (
  dataset_id {name} NOT NULL, run_id {name} NOT NULL, seq BIGINT,
  PRIMARY KEY (dataset_id, run_id));
CREATE TABLE lease (
  dataset_id {name} NOT NULL, token BIGINT NOT NULL, run_id {name} NOT NULL,
  host VARCHAR(255) NOT NULL, pid BIGINT NOT NULL, process_start VARCHAR(255) NOT NULL,
  held_since BIGINT NOT NULL, heartbeat BIGINT NOT NULL, expires BIGINT NOT NULL,
  lease_ms BIGINT NOT NULL, released SMALLINT NOT NULL, PRIMARY KEY (dataset_id));
CREATE TABLE shape (
  dataset_id {name} NOT NULL, shape {text}, era BIGINT NOT NULL, last_rows BIGINT,
  PRIMARY KEY (dataset_id));
"""

# The tables that each later format added. A format adds tables and leaves earlier ones as they are,
# so that a process that began under the old format can end under the new one.
_ADDED = {
    2: """
CREATE TABLE run_detail (
  dataset_id {name} NOT NULL, run_id {name} NOT NULL, kind {name} NOT NULL,
  payload {text} NOT NULL, PRIMARY KEY (dataset_id, run_id, kind));
CREATE TABLE checkpoint (
  dataset_id {name} NOT NULL, kind {name} NOT NULL, payload {text} NOT NULL,
  PRIMARY KEY (dataset_id, kind));
""",
}


def statements(column_words: ColumnWords, *, number: int = FORMAT) -> list[str]:
    """Return the statements that create an empty store; the table of the format comes first."""
    first = _TABLES + _WRITERS if column_words.has_writers else _TABLES
    later = "".join(text for since, text in _ADDED.items() if since <= number)
    return _in_words_of(column_words, first + later)


def additions(column_words: ColumnWords, since: int) -> list[str]:
    """Return the statements that turn a store of an older format into a store of this format."""
    return _in_words_of(column_words, "".join(text for to, text in _ADDED.items() if to > since))


def _in_words_of(column_words: ColumnWords, source: str) -> list[str]:
    words = {
        "blob": column_words.blob,
        "text": column_words.text,
        "digest": column_words.digest,
        "name": column_words.name,
        "format_key": column_words.format_key,
    }
    texts = [text.strip() for text in source.format(**words).split(";") if text.strip()]
    return [
        text + column_words.table_options if text.startswith("CREATE TABLE") else text
        for text in texts
    ]


def names(column_words: ColumnWords, *, number: int = FORMAT) -> tuple[str, ...]:
    """Return the names of a store's tables; the table that has the format comes first."""
    found = (
        re.match(r"CREATE TABLE (\w+)", text) for text in statements(column_words, number=number)
    )
    return tuple(match[1] for match in found if match)


@dataclass(frozen=True, slots=True)
class JobTable:
    """A table with rows of jobs, the same on every server; ``blobs`` are its columns of bytes."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    blobs: frozenset[str]


def job_tables(*, number: int = FORMAT) -> tuple[JobTable, ...]:
    """Return the tables with a job's rows; leases are left out, because they belong to a store."""
    found = []
    for text in statements(SQLITE, number=number):
        match = re.fullmatch(
            r"CREATE TABLE (\w+) \((.*), PRIMARY KEY \(([^)]*)\)\)",
            " ".join(text.split()),
        )
        if match is not None and match[1] != "lease":
            words = {name: kind for name, kind, *_ in map(str.split, match[2].split(", "))}
            blobs = frozenset(name for name, kind in words.items() if kind == SQLITE.blob)
            key = tuple(match[3].split(", "))
            found.append(JobTable(match[1], tuple(words), key, blobs))
    return tuple(found)


def copy_name(table: str, number: int) -> str:
    """Return the name of the table that keeps another table's rows in an older format."""
    return f"{table}_format_{number}"


def is_readable(number: int) -> bool:
    """Return whether this release reads stores of a format."""
    return OLDEST_FORMAT <= number <= FORMAT


def refused_format(found: int | None, place: str, otherwise: str) -> StateError:
    """Return the error for a store that this version does not read.

    Args:
        found: The store's format, None if it has none.
        place: The store's name for users.
        otherwise: The fix if there is no copy to restore.
    """
    if found is not None and found > FORMAT:
        return StateError(
            f"state store {place} has format {found}, this dil reads format {FORMAT}",
            "It was written by a newer dil. Upgrade, or restore the copy taken before that run.",
        )
    kind = "no format" if found is None else f"format {found}"
    return StateError(
        f"state store {place} has {kind}, this dil reads format {FORMAT}",
        f"Restore a copy of it, or use the version that made it. {otherwise}",
    )
