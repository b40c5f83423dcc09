"""The tables of the SQL state stores, and the words in which the servers differ.

A dialect supplies the column types and, where its driver wants another placeholder, its database
rewrites ``?``. Long texts never stand in a key: signatures, unit keys and URIs are keyed by their
SHA-256 (spec README 25).
"""

from __future__ import annotations

from dataclasses import dataclass

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Dialect:
    """Column types of one server: ``blob`` keeps all bytes, ``digest`` compares bytewise."""

    name: str
    blob: str
    text: str
    digest: str
    dataset: str


SQLITE = Dialect(name="sqlite", blob="BLOB", text="TEXT", digest="TEXT", dataset="TEXT")

_TABLES = """
CREATE TABLE state_format (format INTEGER NOT NULL);
CREATE TABLE mc_block (
  dataset_id {dataset} NOT NULL, seq BIGINT NOT NULL, block_hash {digest} NOT NULL,
  prev_hash {digest}, event_kind VARCHAR(40) NOT NULL, system_time VARCHAR(27) NOT NULL,
  has_data SMALLINT NOT NULL, payload {blob} NOT NULL, PRIMARY KEY (dataset_id, seq));
CREATE UNIQUE INDEX mc_block_hash ON mc_block (dataset_id, block_hash);
CREATE INDEX mc_block_kind ON mc_block (dataset_id, event_kind, seq);
CREATE TABLE mc_head (
  dataset_id {dataset} NOT NULL, ref VARCHAR(50) NOT NULL, block_hash {digest} NOT NULL,
  seq BIGINT NOT NULL, data_seq BIGINT, config_seq BIGINT, schema_seq BIGINT,
  PRIMARY KEY (dataset_id, ref));
CREATE TABLE work_unit (
  dataset_id {dataset} NOT NULL, unit_sha {digest} NOT NULL, unit_key {digest} NOT NULL,
  signature {text} NOT NULL, low BIGINT NOT NULL, expected_high BIGINT NOT NULL, high BIGINT,
  status VARCHAR(12) NOT NULL, attempts INTEGER NOT NULL, cursor_json {text},
  last_error {text} NOT NULL, timelabel VARCHAR(14), seq BIGINT NOT NULL,
  row_hash {digest} NOT NULL, era BIGINT NOT NULL, PRIMARY KEY (dataset_id, unit_sha));
CREATE INDEX work_unit_low ON work_unit (dataset_id, low);
CREATE INDEX work_unit_key ON work_unit (dataset_id, unit_key, low);
CREATE INDEX work_unit_open ON work_unit (dataset_id, status, low);
CREATE INDEX work_unit_key_open ON work_unit (dataset_id, unit_key, status, low);
CREATE TABLE coverage (
  dataset_id {dataset} NOT NULL, unit_key {digest} NOT NULL, covered_from BIGINT NOT NULL,
  covered_to BIGINT NOT NULL, tail_from BIGINT NOT NULL, tail_to BIGINT NOT NULL,
  era BIGINT NOT NULL, max_high BIGINT, lowest BIGINT NOT NULL, open_count BIGINT NOT NULL,
  PRIMARY KEY (dataset_id, unit_key));
CREATE TABLE live_file (
  dataset_id {dataset} NOT NULL, uri_sha {digest} NOT NULL, uri {text} NOT NULL,
  first_offset BIGINT NOT NULL, PRIMARY KEY (dataset_id, uri_sha));
CREATE TABLE intent (
  dataset_id {dataset} NOT NULL, run_id VARCHAR(200) NOT NULL, payload {text} NOT NULL,
  PRIMARY KEY (dataset_id));
CREATE TABLE run (
  dataset_id {dataset} NOT NULL, run_id VARCHAR(200) NOT NULL, started BIGINT NOT NULL,
  planned_at BIGINT NOT NULL, policy VARCHAR(20) NOT NULL, config_digest VARCHAR(80) NOT NULL,
  staging_dir {text} NOT NULL, status VARCHAR(20) NOT NULL, row_count BIGINT NOT NULL,
  file_count BIGINT NOT NULL, staged SMALLINT NOT NULL, PRIMARY KEY (dataset_id, run_id));
CREATE INDEX run_staged ON run (dataset_id, staged, started);
CREATE TABLE committed_run (
  dataset_id {dataset} NOT NULL, run_id VARCHAR(200) NOT NULL, seq BIGINT,
  PRIMARY KEY (dataset_id, run_id));
CREATE TABLE lease (
  dataset_id {dataset} NOT NULL, token BIGINT NOT NULL, run_id VARCHAR(200) NOT NULL,
  host VARCHAR(255) NOT NULL, pid BIGINT NOT NULL, process_start VARCHAR(255) NOT NULL,
  held_since BIGINT NOT NULL, heartbeat BIGINT NOT NULL, expires BIGINT NOT NULL,
  lease_ms BIGINT NOT NULL, released SMALLINT NOT NULL, PRIMARY KEY (dataset_id));
CREATE TABLE shape (
  dataset_id {dataset} NOT NULL, shape {text}, era BIGINT NOT NULL, last_rows BIGINT,
  PRIMARY KEY (dataset_id));
"""


def statements(dialect: Dialect) -> list[str]:
    """Return the statements that create an empty store of this format."""
    words = {
        "blob": dialect.blob,
        "text": dialect.text,
        "digest": dialect.digest,
        "dataset": dialect.dataset,
    }
    texts = _TABLES.format(**words).split(";")
    return [text.strip() for text in texts if text.strip()]
