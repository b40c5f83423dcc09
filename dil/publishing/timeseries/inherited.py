"""Copies a table's properties, except its columns, to the table that takes its place."""

from __future__ import annotations

from collections import Counter, defaultdict

from dil.databases.statements import MARK
from dil.publishing.timeseries.engines import MysqlTables, PostgresqlTables
from dil.publishing.timeseries.grants import grants_of
from dil.publishing.timeseries.loading import TimeseriesTable
from dil.publishing.warehouse.dialect import Connection, TableName

_OF_POSTGRESQL = f"""
SELECT what FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, LATERAL (
  SELECT 'triggers' AS what FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
  UNION ALL SELECT 'foreign keys' FROM pg_constraint k
    WHERE k.contype = 'f' AND c.oid IN (k.conrelid, k.confrelid)
  UNION ALL SELECT 'rules' FROM pg_rewrite r WHERE r.ev_class = c.oid
  UNION ALL SELECT 'row-level security' WHERE c.relrowsecurity
  UNION ALL SELECT 'partitions' WHERE c.relkind = 'p'
  UNION ALL SELECT 'a table above it, of which it is a part'
    FROM pg_inherits i WHERE i.inhrelid = c.oid
  UNION ALL SELECT 'tables that inherit it' FROM pg_inherits i WHERE i.inhparent = c.oid
  UNION ALL SELECT 'the view ' || v.oid::regclass FROM pg_depend d
    JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_class v ON v.oid = r.ev_class AND v.oid <> c.oid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid
      AND NOT (v.relnamespace = c.relnamespace AND v.relname = {MARK})
  UNION ALL SELECT 'the function ' || d.objid::regprocedure FROM pg_depend d
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid
      AND d.classid = 'pg_proc'::regclass
  UNION ALL SELECT 'a publication' FROM pg_publication_rel p WHERE p.prrelid = c.oid
) found WHERE n.nspname = {MARK} AND c.relname = {MARK} LIMIT 1"""
_OF_MYSQL = f"""
SELECT 'triggers' FROM information_schema.triggers
WHERE event_object_schema = DATABASE() AND event_object_table = {MARK}
UNION ALL SELECT 'foreign keys' FROM information_schema.referential_constraints
WHERE constraint_schema = DATABASE() AND {MARK} IN (table_name, referenced_table_name)
LIMIT 1"""
_SEQUENCES = f"""
SELECT a.attname::text, a.attidentity = '', pg_get_serial_sequence({MARK}, a.attname::text)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = {MARK} AND c.relname = {MARK}
  AND pg_get_serial_sequence({MARK}, a.attname::text) IS NOT NULL"""

# Keys and exclusions: a copy of a table has other names for these, because their names must be
# unique in the schema. A check keeps its name, which must be unique only in its table.
_KEYS = f"""
SELECT k.conname::text, pg_get_constraintdef(k.oid) FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND k.contype IN ('p', 'u', 'x')
ORDER BY 2, 1"""
_ON_ITS_WAY = "_dil_key"


def obstacle(series: TimeseriesTable, connection: Connection) -> str:
    """Return the property of the base that a copy would lack, empty if there is none."""
    name = series.names.base
    if isinstance(series.tables, PostgresqlTables):
        view = series.names.view.name
        found = connection.rows(_OF_POSTGRESQL, view, name.schema, name.name)
    elif isinstance(series.tables, MysqlTables):
        found = connection.rows(_OF_MYSQL, name.name, name.name)
    else:
        return ""  # On other databases the table stays, and its rows are moved.
    return str(found[0][0]) if found else ""


def give_next_base(series: TimeseriesTable, connection: Connection, old: TableName) -> None:
    """Create the base table again like the earlier one, with its rights and its owner.

    Columns that number rows continue to count: a serial column uses the earlier sequence, which
    then belongs to the new table; an identity column has a new sequence that continues from the
    same number.
    """
    base, full = series.names.base, series.dialect.full
    connection.change(f"CREATE TABLE {full(base)} (LIKE {full(old)} INCLUDING ALL)")
    quoted = full(old)
    found = connection.rows(_SEQUENCES, quoted, old.schema, old.name, quoted)
    for column, is_serial, sequence in found:
        if is_serial:
            owner = f"{full(base)}.{series.dialect.quote(str(column))}"
            connection.change(f"ALTER SEQUENCE {sequence} OWNED BY {owner}")
            continue
        value, is_called = connection.rows(f"SELECT last_value, is_called FROM {sequence}")[0]
        own = connection.rows(
            f"SELECT pg_get_serial_sequence({MARK}, {MARK})", full(base), str(column)
        )
        called = "true" if is_called else "false"
        connection.rows(f"SELECT setval('{own[0][0]}', {value}, {called})")
    _exchange_names(series, connection, old)
    for statement in grants_of(connection, series.dialect, old, base):
        connection.change(statement)


def _exchange_names(series: TimeseriesTable, connection: Connection, old: TableName) -> None:
    """Give the new base's keys the names of the old keys, which writers' statements may contain."""
    base, quote = series.names.base, series.dialect.quote
    keys = connection.rows(_KEYS, old.schema, old.name)
    copied = Counter(text for _, text in connection.rows(_KEYS, base.schema, base.name))
    for text in (Counter(text for _, text in keys) - copied).elements():
        # If several keys are equal, a table made like another table has only one of them.
        connection.change(f"ALTER TABLE {series.dialect.full(base)} ADD {text}")
    made: defaultdict[object, list[str]] = defaultdict(list)
    for name, text in connection.rows(_KEYS, base.schema, base.name):
        made[text].append(str(name))
    for name, text in keys:
        steps = (
            (base, made[text][0], _ON_ITS_WAY),
            (old, str(name), made[text].pop(0)),
            (base, _ON_ITS_WAY, str(name)),
        )
        for table, before, after in steps:
            connection.change(
                f"ALTER TABLE {series.dialect.full(table)} "
                f"RENAME CONSTRAINT {quote(before)} TO {quote(after)}"
            )
