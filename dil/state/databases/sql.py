"""Every statement of the SQL state stores.

Statements use ``?`` as placeholder, and only what SQLite, PostgreSQL and MySQL share: no upsert, no
RETURNING, no FOR UPDATE (a row is locked by updating it). All times are epoch milliseconds UTC.
``dataset_id`` is the job's name.
"""

from __future__ import annotations

from dil.model.dataset import OPEN_STATUSES

READ_FORMAT = "SELECT format FROM state_format"
WRITE_FORMAT = "INSERT INTO state_format (format) VALUES (?)"
CHANGE_FORMAT = "UPDATE state_format SET format = ?"

# Chain

HEAD = (
    "SELECT block_hash, data_seq, config_seq, schema_seq, seq FROM mc_head"
    " WHERE dataset_id = ? AND ref = 'head'"
)
FIRST_HEAD = (
    "INSERT INTO mc_head (dataset_id, block_hash, seq, data_seq, config_seq, schema_seq, ref)"
    " VALUES (?, ?, ?, ?, ?, ?, 'head')"
)
MOVE_HEAD = (
    "UPDATE mc_head SET block_hash = ?, seq = ?, data_seq = ?, config_seq = ?, schema_seq = ?"
    " WHERE dataset_id = ? AND ref = 'head' AND block_hash = ?"
)
BLOCK = "SELECT block_hash, payload FROM mc_block WHERE dataset_id = ? AND seq = ?"
HEAD_BLOCK = (
    "SELECT b.block_hash, b.payload FROM mc_head h JOIN mc_block b"
    " ON b.dataset_id = h.dataset_id AND b.seq = h.seq WHERE h.dataset_id = ? AND h.ref = 'head'"
)
LAST_BLOCK = "SELECT MAX(seq) FROM mc_block WHERE dataset_id = ?"
BLOCKS = "SELECT block_hash, payload FROM mc_block WHERE dataset_id = ? ORDER BY seq DESC"
BLOCKS_OF_KIND = (
    "SELECT block_hash, payload FROM mc_block WHERE dataset_id = ? AND event_kind = ?"
    " ORDER BY seq DESC"
)
BLOCKS_SINCE = (
    "SELECT block_hash, payload FROM mc_block WHERE dataset_id = ? AND seq > ? ORDER BY seq"
)
DATA_BLOCK_UP_TO = (
    "SELECT seq, block_hash, payload FROM mc_block WHERE dataset_id = ? AND event_kind = ?"
    " AND seq <= ? ORDER BY seq DESC LIMIT 1"
)
RESETS = (
    "SELECT payload FROM mc_block WHERE dataset_id = ? AND event_kind = 'ResetState' AND seq > ?"
)
ADD_BLOCK = (
    "INSERT INTO mc_block (dataset_id, seq, block_hash, prev_hash, event_kind, system_time,"
    " has_data, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)

# Work units

_UNIT_COLUMNS = "signature, low, expected_high, high, status, attempts, cursor_json"
UNIT = (
    f"SELECT {_UNIT_COLUMNS}, row_hash, era, unit_key, timelabel FROM work_unit"
    " WHERE dataset_id = ? AND unit_sha = ?"
)
ADD_UNIT = (
    "INSERT INTO work_unit (unit_key, signature, low, expected_high, high, status, attempts,"
    " cursor_json, last_error, timelabel, seq, row_hash, era, dataset_id, unit_sha)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
CHANGE_UNIT = (
    "UPDATE work_unit SET unit_key = ?, signature = ?, low = ?, expected_high = ?, high = ?,"
    " status = ?, attempts = ?, cursor_json = ?, last_error = ?, timelabel = ?, seq = ?,"
    " row_hash = ?, era = ? WHERE dataset_id = ? AND unit_sha = ?"
)
DROP_UNIT = "DELETE FROM work_unit WHERE dataset_id = ? AND unit_sha = ?"
ANY_ROW = "SELECT 1 FROM work_unit WHERE dataset_id = ? LIMIT 1"
# Rows that an operator made pending are as if they had never been.
ANY_UNIT = (
    "SELECT 1 FROM work_unit WHERE dataset_id = ? AND status IN ('COMMITTED', 'FAILED', 'SKIPPED')"
    " LIMIT 1"
)
ANY_COMMITTED = "SELECT 1 FROM work_unit WHERE dataset_id = ? AND status = 'COMMITTED' LIMIT 1"
ANY_FAILED_LATER = (
    "SELECT 1 FROM work_unit WHERE dataset_id = ? AND status = 'FAILED' AND high > low LIMIT 1"
)
LOWEST_OPEN = "SELECT low FROM work_unit WHERE dataset_id = ? AND status = ? ORDER BY low LIMIT 1"
LAST_WITH_STATUS = (
    "SELECT expected_high FROM work_unit WHERE dataset_id = ? AND status = ? AND low < ?"
    " ORDER BY low DESC LIMIT 1"
)
LOWEST_OPEN_OUTSIDE = (
    "SELECT low FROM work_unit WHERE dataset_id = ? AND status = ? AND low >= ?"
    " AND expected_high > ? ORDER BY low LIMIT 1"
)
LOWEST = "SELECT low FROM work_unit WHERE dataset_id = ? ORDER BY low LIMIT 1"
RECORDS = (
    "SELECT signature, low, high, status, attempts, expected_high FROM work_unit"
    " WHERE dataset_id = ? AND unit_key = ? AND low >= ? AND low < ? ORDER BY low"
)
OPEN_RECORDS = (
    "SELECT signature, low, high, status, attempts, expected_high FROM work_unit"
    " WHERE dataset_id = ? AND unit_key = ? AND status = ? ORDER BY low"
)
UNIT_STATES = (
    "SELECT signature, low, high, status, attempts FROM work_unit"
    " WHERE dataset_id = ? ORDER BY low, signature"
)
UNIT_ENTRIES = (
    "SELECT signature, low, expected_high, high, status, attempts FROM work_unit"
    " WHERE dataset_id = ? ORDER BY low, signature"
)
# By unit; rows that an operator made pending are as if they had never been.
UNIT_RECORDS = (
    "SELECT low, expected_high, high, status, unit_key, signature FROM work_unit"
    " WHERE dataset_id = ? AND status <> 'PENDING' ORDER BY unit_key, low"
)
UNIT_CHECKS = (
    "SELECT unit_sha, unit_key, row_hash, era, signature, low, expected_high, high, status,"
    " attempts FROM work_unit WHERE dataset_id = ? ORDER BY unit_key, low"
)
ROWS_OF_UNIT = (
    "SELECT low, high, expected_high, status, era FROM work_unit"
    " WHERE dataset_id = ? AND unit_key = ? ORDER BY low"
)
# A skipped work unit counts as read up to its end.
_REACHED = "CASE WHEN status = 'SKIPPED' THEN expected_high ELSE high END"
TILE_AT = (
    f"SELECT {_REACHED}, expected_high FROM work_unit"
    f" WHERE dataset_id = ? AND unit_key = ? AND low = ? AND {_REACHED} > low AND era = ?"
)
ROW_BEFORE = (
    f"SELECT low, {_REACHED}, expected_high, era FROM work_unit"
    " WHERE dataset_id = ? AND unit_key = ? AND low < ? ORDER BY low DESC LIMIT 1"
)
COVERAGE = (
    "SELECT covered_from, covered_to, tail_from, tail_to, era, max_high, lowest, open_count"
    " FROM coverage WHERE dataset_id = ? AND unit_key = ?"
)
ADD_COVERAGE = (
    "INSERT INTO coverage (covered_from, covered_to, tail_from, tail_to, era, max_high, lowest,"
    " open_count, dataset_id, unit_key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
COVERED_UNITS = "SELECT unit_key FROM coverage WHERE dataset_id = ?"
LARGEST_HIGH = "SELECT MAX(max_high) FROM coverage WHERE dataset_id = ?"
DROP_COVERAGE = "DELETE FROM coverage WHERE dataset_id = ? AND unit_key = ?"
CHANGE_COVERAGE = (
    "UPDATE coverage SET covered_from = ?, covered_to = ?, tail_from = ?, tail_to = ?, era = ?,"
    " max_high = ?, lowest = ?, open_count = ? WHERE dataset_id = ? AND unit_key = ?"
)

# Live files: the dataset's manifest says which files are live. This table only has the first offset
# of each file: a later block that removes the file has to repeat the offset in newData.removes.

FILE_OFFSETS = "SELECT uri, first_offset FROM live_file WHERE dataset_id = ?"
FILE_OFFSET = "SELECT first_offset FROM live_file WHERE dataset_id = ? AND uri_sha = ?"
REMOVE_FILE = "DELETE FROM live_file WHERE dataset_id = ? AND uri_sha = ?"
ADD_FILE = "INSERT INTO live_file (dataset_id, uri_sha, uri, first_offset) VALUES (?, ?, ?, ?)"

# Lease

LEASE = (
    "SELECT token, run_id, host, pid, process_start, held_since, heartbeat, expires, released"
    " FROM lease WHERE dataset_id = ?"
)
# Asked once in the life of a store, when it is upgraded.
LEASES_OF_OTHERS = (
    "SELECT dataset_id, token, run_id, host, pid, process_start, held_since, heartbeat, expires,"
    " released FROM lease WHERE dataset_id <> ? ORDER BY dataset_id"
)
FIRST_LEASE = (
    "INSERT INTO lease (token, run_id, host, pid, process_start, held_since, heartbeat, expires,"
    " lease_ms, released, dataset_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
)
TAKE_LEASE = (
    "UPDATE lease SET token = ?, run_id = ?, host = ?, pid = ?, process_start = ?, held_since = ?,"
    " heartbeat = ?, expires = ?, lease_ms = ?, released = 0 WHERE dataset_id = ?"
)
PROLONG_LEASE = (
    "UPDATE lease SET heartbeat = ?, expires = ? + lease_ms"
    " WHERE dataset_id = ? AND token = ? AND run_id = ? AND released = 0"
)
# Ends a lease and sets its token, so that the next token is larger than another store's, too.
HAND_OVER_LEASE = "UPDATE lease SET token = ?, released = 1 WHERE dataset_id = ? AND token = ?"
RELEASE_LEASE = "UPDATE lease SET released = 1 WHERE dataset_id = ? AND token = ? AND run_id = ?"
# Changes nothing. If the lease is the newest, it matches one row, and locks it until the commit.
HOLD_LEASE = "UPDATE lease SET token = token WHERE dataset_id = ? AND token = ? AND run_id = ?"

# Runs, intent

ADD_RUN = (
    "INSERT INTO run (started, planned_at, policy, config_digest, staging_dir, status, row_count,"
    " file_count, staged, dataset_id, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"
)
CHANGE_RUN = (
    "UPDATE run SET started = ?, planned_at = ?, policy = ?, config_digest = ?, staging_dir = ?,"
    " status = ?, row_count = ?, file_count = ?, staged = 1"
    " WHERE dataset_id = ? AND run_id = ?"
)
END_RUN = (
    "UPDATE run SET status = ?, row_count = ?, file_count = ? WHERE dataset_id = ? AND run_id = ?"
)
COMMITTED_RUN = "UPDATE run SET status = ? WHERE dataset_id = ? AND run_id = ?"
SUPERSEDED_RUNS = (
    "UPDATE run SET status = 'superseded' WHERE dataset_id = ? AND run_id <> ?"
    f" AND staged = 1 AND status IN {OPEN_STATUSES!r}"
)
SWEPT_RUN = "UPDATE run SET staged = 0 WHERE dataset_id = ? AND run_id = ?"
_RUNS = (
    "SELECT run_id, started, planned_at, policy, config_digest, staging_dir, status, row_count,"
    " file_count, EXISTS (SELECT 1 FROM committed_run AS done WHERE done.dataset_id ="
    " run.dataset_id AND done.run_id = run.run_id), staged FROM run WHERE dataset_id = ?"
)
STAGED_RUNS = f"{_RUNS} AND staged = 1 ORDER BY started, run_id"
RUNS = f"{_RUNS} ORDER BY started DESC, run_id DESC"
NEWEST_RUN = "SELECT MAX(started) FROM run WHERE dataset_id = ?"
# Runs without staging that began before an instant: history that no run needs any more.
COUNT_SWEPT_RUNS = "SELECT COUNT(*) FROM run WHERE dataset_id = ? AND staged = 0 AND started < ?"
DROP_SWEPT_COMMITS = (
    "DELETE FROM committed_run WHERE dataset_id = ? AND run_id IN"
    " (SELECT run_id FROM run WHERE dataset_id = ? AND staged = 0 AND started < ?)"
)
DROP_SWEPT_RUNS = "DELETE FROM run WHERE dataset_id = ? AND staged = 0 AND started < ?"
DROP_SWEPT_DETAILS = (
    "DELETE FROM run_detail WHERE dataset_id = ? AND run_id IN"
    " (SELECT run_id FROM run WHERE dataset_id = ? AND staged = 0 AND started < ?)"
)
DROP_DETAILS_WITHOUT_RUN = (
    "DELETE FROM run_detail WHERE dataset_id = ? AND run_id NOT IN"
    " (SELECT run_id FROM run WHERE dataset_id = ?)"
)
INTENT_OF = "SELECT run_id FROM intent WHERE dataset_id = ?"
INTENT = "SELECT run_id, payload FROM intent WHERE dataset_id = ?"
ADD_INTENT = "INSERT INTO intent (dataset_id, run_id, payload) VALUES (?, ?, ?)"
DROP_INTENT = "DELETE FROM intent WHERE dataset_id = ? AND run_id = ?"
COMMITTED = "SELECT seq FROM committed_run WHERE dataset_id = ? AND run_id = ?"
RUNS_WITHOUT_BLOCK = (
    "SELECT run_id, seq FROM committed_run WHERE dataset_id = ? AND seq IS NOT NULL"
    " AND seq NOT IN (SELECT seq FROM mc_block WHERE dataset_id = ?)"
)
ADD_COMMITTED = "INSERT INTO committed_run (dataset_id, run_id, seq) VALUES (?, ?, ?)"

# Details of a run and checkpoints of a job, as JSON documents by their kind (format 2)

RUN_DETAIL = "SELECT payload FROM run_detail WHERE dataset_id = ? AND run_id = ? AND kind = ?"
RUN_DETAILS = (
    "SELECT run_detail.run_id, payload FROM run_detail JOIN run ON run.dataset_id ="
    " run_detail.dataset_id AND run.run_id = run_detail.run_id WHERE run_detail.dataset_id = ?"
    " AND kind = ? ORDER BY started DESC, run_detail.run_id DESC"
)
ADD_RUN_DETAIL = "INSERT INTO run_detail (payload, dataset_id, run_id, kind) VALUES (?, ?, ?, ?)"
CHANGE_RUN_DETAIL = (
    "UPDATE run_detail SET payload = ? WHERE dataset_id = ? AND run_id = ? AND kind = ?"
)
CHECKPOINT = "SELECT payload FROM checkpoint WHERE dataset_id = ? AND kind = ?"
ADD_CHECKPOINT = "INSERT INTO checkpoint (payload, dataset_id, kind) VALUES (?, ?, ?)"
CHANGE_CHECKPOINT = "UPDATE checkpoint SET payload = ? WHERE dataset_id = ? AND kind = ?"

# One row a job: shape of its watermark, counters

SHAPE = "SELECT shape, era, last_rows FROM shape WHERE dataset_id = ?"
ADD_SHAPE = "INSERT INTO shape (shape, era, last_rows, dataset_id) VALUES (?, ?, ?, ?)"
CHANGE_SHAPE = "UPDATE shape SET shape = ?, era = ?, last_rows = ? WHERE dataset_id = ?"
