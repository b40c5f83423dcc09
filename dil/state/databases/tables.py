"""The tables of the SQL state stores, and the words in which the servers differ.

A dialect supplies the column types and, where its driver wants another placeholder, its database
rewrites ``?``. Names are compared bytewise everywhere: case, accents and trailing blanks count,
and texts are ordered by code point. Long texts never stand in a key: signatures, unit keys and
URIs are keyed by their SHA-256 (spec README 25).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dil.errors import StateError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Dialect:
    """Column types of one server.

    ``blob`` keeps all bytes, ``text`` is long, ``digest`` holds hexadecimal digits, ``name`` up
    to 200 characters that stand in a key; ``table_options`` follow each table.
    """

    blob: str
    text: str
    digest: str
    name: str
    table_options: str = ""
    has_writers: bool = True


SQLITE = Dialect(blob="BLOB", text="TEXT", digest="TEXT", name="TEXT", has_writers=False)
POSTGRESQL = Dialect(
    blob="BYTEA",
    text='TEXT COLLATE "C"',
    digest='VARCHAR(80) COLLATE "C"',
    name='VARCHAR(200) COLLATE "C"',
)


def mysql_dialect(collation: str) -> Dialect:
    """Return the words of a MySQL or MariaDB server for a binary collation without padding."""
    return Dialect(
        blob="LONGBLOB",
        text="LONGTEXT",
        digest="VARCHAR(80) CHARACTER SET ascii COLLATE ascii_bin",
        name="VARCHAR(200)",
        table_options=" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4"
        f" COLLATE {collation}",
    )


# On a server this row is each job's write lock, and ``mark`` names the last transaction that was
# committed, so that one whose answer was lost can be looked up. SQLite has a lock of its own.
_WRITERS = (
    "CREATE TABLE writer (dataset_id {name} NOT NULL, mark VARCHAR(40) NOT NULL,\n"
    "  PRIMARY KEY (dataset_id));"
)

_TABLES = """
CREATE TABLE state_format (format INTEGER NOT NULL);
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


def statements(dialect: Dialect) -> list[str]:
    """Return the statements that create an empty store of this format, that of its format first."""
    words = {
        "blob": dialect.blob,
        "text": dialect.text,
        "digest": dialect.digest,
        "name": dialect.name,
    }
    source = _TABLES + _WRITERS if dialect.has_writers else _TABLES
    texts = [text.strip() for text in source.format(**words).split(";") if text.strip()]
    return [
        text + dialect.table_options if text.startswith("CREATE TABLE") else text for text in texts
    ]


def names(dialect: Dialect) -> tuple[str, ...]:
    """Return the tables of a store, that of its format first."""
    found = (re.match(r"CREATE TABLE (\w+)", text) for text in statements(dialect))
    return tuple(match[1] for match in found if match)


def refused_format(found: int | None, place: str, otherwise: str) -> StateError:
    """Return the error of a store that this version does not read.

    Args:
        found: Its format, None when it tells none.
        place: The store, as users know it.
        otherwise: What to do when there is no copy to restore.
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
