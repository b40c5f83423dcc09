"""Reads the rights on a table or view of PostgreSQL, as statements that grant them again."""

from __future__ import annotations

from dil.databases.statements import MARK
from dil.publishing.warehouse.dialect import Connection, Dialect, TableName

_RIGHTS = f"""
SELECT g.privilege_type, CASE WHEN g.grantee = 0 THEN '' ELSE r.rolname::text END, g.is_grantable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) g
LEFT JOIN pg_roles r ON r.oid = g.grantee
WHERE n.nspname = {MARK} AND c.relname = {MARK} ORDER BY 2, 1"""
_COLUMN_RIGHTS = f"""
SELECT g.privilege_type, a.attname::text,
       CASE WHEN g.grantee = 0 THEN '' ELSE r.rolname::text END, g.is_grantable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped, aclexplode(a.attacl) g
LEFT JOIN pg_roles r ON r.oid = g.grantee
WHERE n.nspname = {MARK} AND c.relname = {MARK} ORDER BY 3, 1, a.attnum"""
_OWNER = f"""
SELECT r.rolname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_roles r ON r.oid = c.relowner
WHERE n.nspname = {MARK} AND c.relname = {MARK} AND r.rolname <> current_user"""


def grants_of(
    connection: Connection, dialect: Dialect, source: TableName, target: TableName | None = None
) -> tuple[str, ...]:
    """Return statements that grant the rights on ``source`` again, on ``target`` if it is given."""
    place = (source.schema, source.name)
    full, quote = dialect.full(target or source), dialect.quote
    found = [
        (str(right), who, may_grant) for right, who, may_grant in connection.rows(_RIGHTS, *place)
    ]
    found += [
        (f"{right} ({quote(str(column))})", who, may_grant)
        for right, column, who, may_grant in connection.rows(_COLUMN_RIGHTS, *place)
    ]
    statements = [
        f"GRANT {right} ON {full} TO {quote(str(who)) if who else 'PUBLIC'}"
        f"{' WITH GRANT OPTION' if may_grant and who else ''}"
        for right, who, may_grant in found
    ]
    for (owner,) in connection.rows(_OWNER, *place):
        statements.append(f"ALTER TABLE {full} OWNER TO {dialect.quote(str(owner))}")
    return tuple(statements)
