"""MySQL 8 and MariaDB 10.2 or newer, through PyMySQL.

On MySQL, creating or altering a table commits. So DIL does this before the transaction, by
statements that may be repeated. Rows are loaded by LOAD DATA LOCAL if the server allows that, else
by INSERT.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from dil.databases import mysql
from dil.databases.faults import Diagnosis, Fault
from dil.databases.statements import MARK, quoted, with_percents
from dil.errors import WriteError
from dil.publishing.warehouse.dialect import (
    ADVICE,
    CONNECT_S,
    IDLE_S,
    LOCK_S,
    PROPERTIES,
    STAGE,
    WINNERS,
    Connection,
    Dialect,
    Row,
    Table,
    TableColumn,
    TableName,
    Value,
    are_outside,
    instant_text,
)
from dil.text.warehouse_url import WarehouseAddress
from dil.types.lattice import INSTANT, decimal_type
from dil.types.warehouse import JSON, MYSQL_WORDS, TEXT

_INTEGERS = {
    "smallint": pa.int16(),
    "mediumint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_TYPES = {
    "double": pa.float64(),
    "date": pa.date32(),
    **dict.fromkeys(("longblob", "mediumblob", "blob"), pa.binary()),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json"), TEXT
    ),
}
_KEY_CHARACTERS = 255
_KEY_BYTES = 3072  # the most in an index of InnoDB
_SORT_BYTES = 2 * 1024 * 1024
_MOST_SORT_BYTES = 8 * 1024 * 1024  # the greatest max_sort_length
_LENGTH_BYTES = 4  # the server puts a value's length behind its bytes, within the limit
_SORTED_ROWS = 16  # the server's sort buffer has to hold 15 rows
_NAME_CHARACTERS = 64
_DECIMAL_DIGITS, _DECIMAL_SCALE = 65, 30
_INSERTED_ROWS = 500
# The years 1 to 9999, as days and microseconds since 1970.
_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_ADVICE = {
    **mysql.advice(PROPERTIES),
    **ADVICE,
    Fault.DOES_NOT_FIT: "A text is too long for its column; keys made by DIL hold 255 characters.",
}
# The catalogue compares names without regard to case, but the server may distinguish case.
_IS_EXACT = "(@@lower_case_table_names <> 0 OR BINARY {}.table_name = " + MARK + ")"
_COLUMNS = f"""
SELECT t.table_type, t.engine, c.column_name, c.data_type, c.column_type,
       c.character_maximum_length, c.numeric_precision, c.numeric_scale, c.datetime_precision,
       c.is_nullable = 'NO' AND c.column_default IS NULL AND c.extra = '', c.is_nullable, c.extra,
       c.character_set_name, c.collation_name
FROM information_schema.tables t JOIN information_schema.columns c
  ON BINARY c.table_name = BINARY t.table_name
WHERE t.table_schema = DATABASE() AND t.table_name = {MARK} AND {_IS_EXACT.format("t")}
  AND c.table_schema = DATABASE() AND c.table_name = {MARK}
ORDER BY c.ordinal_position"""
_UNIQUE = f"""
SELECT s.index_name, s.column_name, s.sub_part FROM information_schema.statistics s
WHERE s.table_schema = DATABASE() AND s.table_name = {MARK} AND {_IS_EXACT.format("s")}
  AND s.non_unique = 0"""
_OF_TEXT = re.compile(r"\A( CHARACTER SET \w+)?( COLLATE \w+)?")
# MySQL takes a default of longtext in brackets alone, as an expression.
_DEFAULT_TEXT = re.compile(r"""\A([^']* DEFAULT )('(?:[^'\\]|''|\\.)*')""", re.DOTALL)
_CHARACTERS = "utf8mb4"
_ADDED_KEY = "auto_increment INVISIBLE"  # sql_generate_invisible_primary_key
_COMPUTED = ("VIRTUAL GENERATED", "STORED GENERATED", "PERSISTENT")


class MysqlDialect(Dialect):
    """Loads in one InnoDB transaction; tables are created before it."""

    ddl_in_transaction = False
    big_integer = "SIGNED"
    key_characters = _KEY_CHARACTERS

    def __init__(self, address: WarehouseAddress) -> None:
        self._address = address
        self._collation = ""

    def connect(self) -> Connection:
        """Return an open connection with strict mode and limited waiting."""
        server = self._address.server
        if server is None:
            raise TypeError("the address is the address of a file")
        variables = (
            "SESSION sql_mode = "
            "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', "
            # Without room for warnings, changed values would stay unnoticed.
            "SESSION max_error_count = 64, "
            # By default rows are sorted by the first kilobyte of a key, but keys may be longer.
            f"SESSION max_sort_length = {_KEY_BYTES}, "
            f"SESSION sort_buffer_size = {_sort_buffer(_SORT_BYTES)}, "
            f"SESSION innodb_lock_wait_timeout = {LOCK_S}, SESSION time_zone = '+00:00', "
            f"SESSION lock_wait_timeout = {LOCK_S}, SESSION wait_timeout = {IDLE_S}, "
            "SESSION default_storage_engine = InnoDB"
        )
        try:
            connection = mysql.connect(
                server,
                connect_s=CONNECT_S,
                variables=variables,
                settings=("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",),
                autocommit=True,
                local_infile=True,
            )
        except mysql.TlsFilesError as error:
            raise WriteError(
                f"the TLS files of ms.warehouse.url cannot be used: {error}",
                "Let ssl-ca, ssl-cert and ssl-key name PEM files.",
            ) from error
        session = mysql.MysqlSession(connection)
        try:
            self._collation = self._collation or _exact_collation(session)
            return _Connection(session)
        except BaseException:
            session.close()
            raise

    def errors(self) -> tuple[type[Exception], ...]:
        """Return PyMySQL's root error."""
        return (mysql.driver().err.MySQLError,)

    def diagnose(self, error: Exception) -> Diagnosis:
        """Return the meaning of the server's error, and the advice."""
        fault = mysql.fault_of(error)
        advice = _ADVICE.get(fault, _ADVICE[Fault.OTHER])
        return Diagnosis(fault, mysql.text_of(error), advice)

    def table(self, connection: Connection, name: TableName) -> Table | None:
        """Return the table's form from the information schema of the connection's database."""
        found = connection.rows(_COLUMNS, name.name, name.name, name.name)
        if not found:
            return None
        unique: dict[object, set[str]] = {}
        # The server may have added a key of its own, which no row can be equal in.
        added = [row[2] for row in found if row[11] == _ADDED_KEY]
        for index, column, part in connection.rows(_UNIQUE, name.name, name.name):
            if column in added:
                continue
            # An index on the beginning of a text or on an expression is not a key of a column.
            is_whole = column is not None and part is None
            unique.setdefault(index, set()).add(str(column) if is_whole else MARK)
        kind, engine = found[0][:2]
        problem = "" if kind == "BASE TABLE" else "is no table that rows can be loaded into"
        if not problem and engine != "InnoDB":
            problem = f"has the engine {engine}, which has no transactions; use InnoDB"
        definitions: Sequence[str] = ()
        if not problem:
            ((_, statement),) = connection.rows(f"SHOW CREATE TABLE {self.full(name)}")
            definitions = str(statement).split("\n")
        return Table(
            tuple(self._with_attributes(row[2:], definitions) for row in found),
            frozenset(map(frozenset, unique.values())),
            problem,
        )

    def _with_attributes(self, row: Row, definitions: Sequence[str]) -> TableColumn:
        """Return a column with the attributes after its type, if the server shows the definition.

        Text keeps its collation, unless the character set lacks characters.
        """
        column, (characters, collation) = _column(row[:-2]), row[-2:]
        start = f"  {self.quote(column.name)} {column.words}"
        found = (each.removeprefix(start) for each in definitions if each.startswith(start))
        rest = next((each for each in found if each[:1] in {"", " ", ","}), None)
        if rest is None:
            return replace(column, attributes=None)
        shown = _OF_TEXT.sub("", rest.removesuffix(","))
        if not characters:
            return replace(column, attributes=shown)
        kept = collation if characters == _CHARACTERS else self._collation
        words = f" CHARACTER SET {_CHARACTERS} COLLATE {kept}"
        return replace(column, attributes=words + shown)

    def type_words(self, data_type: pa.DataType, *, is_key: bool) -> str:
        """Return the type's name; key text has a length, and is compared by bytes.

        There is no name for a key of bytes, because a longblob cannot be a key.
        """
        if is_key and data_type == pa.binary():
            return ""
        if data_type == TEXT:
            words = f"varchar({_KEY_CHARACTERS})" if is_key else MYSQL_WORDS[TEXT]
            return f"{words} CHARACTER SET utf8mb4 COLLATE {self._collation}"
        if pt.is_decimal(data_type):
            fits = data_type.precision <= _DECIMAL_DIGITS and data_type.scale <= _DECIMAL_SCALE
            return f"decimal({data_type.precision},{data_type.scale})" if fits else ""
        words = MYSQL_WORDS.get(data_type, "")
        return f"{words} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" if data_type == JSON else words

    def widen(
        self, table: TableName, column: str, words: str, attributes: str | None = None
    ) -> str:
        """Return a MODIFY, which may be repeated; MySQL drops attributes that the MODIFY lacks."""
        kept = words
        if attributes is not None:
            kind = words.partition(" CHARACTER SET ")[0]
            is_text = kind == MYSQL_WORDS[TEXT]
            kept = kind + (_DEFAULT_TEXT.sub(r"\1(\2)", attributes) if is_text else attributes)
        return f"ALTER TABLE {self.full(table)} MODIFY {self.quote(column)} {kept}"

    def same(self, left: str, right: str) -> str:
        """Return the condition of MySQL."""
        return f"{left} <=> {right}"

    def comparable(self, value: str, column: TableColumn) -> str:
        """Return the bytes of text in UTF-8."""
        bytes_of_text = f"CAST(CONVERT({value} USING utf8mb4) AS BINARY)"
        return bytes_of_text if column.type == TEXT else value

    def sort_whole(self, connection: Connection, values: Sequence[str]) -> None:
        """Raise the limit of the bytes by which rows are sorted, if the values are longer."""
        if not values:
            return
        lengths = ", ".join(f"MAX(LENGTH({each}))" for each in values)
        (found,) = connection.rows(f"SELECT {lengths} FROM {STAGE}")
        longest = max(int(str(each or 0)) for each in found) + _LENGTH_BYTES
        if longest > _KEY_BYTES:
            buffer = _SORTED_ROWS * (len(values) + 1) * longest
            connection.change(
                f"SET SESSION max_sort_length = {longest}, "
                f"SESSION sort_buffer_size = {_sort_buffer(buffer)}"
            )

    def quote(self, name: str) -> str:
        """Return a name in backticks."""
        return quoted(name, "`")

    def kept(self, data_type: pa.DataType) -> pa.DataType:
        """Return the reported type: no zones, one kind of fractions, and JSON as text."""
        if pt.is_timestamp(data_type):
            return INSTANT
        if pt.is_floating(data_type):
            return pa.float64()
        return TEXT if data_type == JSON else data_type

    def refusal(self, column: TableColumn, values: pa.Array) -> str:
        """Return why NaN, infinities, years after 9999 and blanks that CHAR drops are refused."""
        if column.words.startswith("char(") and pc.any(pc.ends_with(values, " ")).as_py():
            return f"holds text that ends with a blank, which {column.words} does not keep"
        if pt.is_floating(values.type) and pc.any(pc.invert(pc.is_finite(values))).as_py():
            return "holds NaN or an infinity, which MySQL cannot store"
        if (pt.is_date32(values.type) and are_outside(values.cast(pa.int32()), _DAYS)) or (
            pt.is_timestamp(values.type) and are_outside(values.cast(pa.int64()), _MICROSECONDS)
        ):
            return "holds a time outside of the years 1 to 9999, which MySQL cannot store"
        return ""

    def unordered(self, values: pa.Array) -> str:
        """Return why texts or bytes are too long to sort rows by them, else an empty text."""
        if not (pt.is_string(values.type) or pt.is_binary(values.type)):
            return ""
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        most = _MOST_SORT_BYTES - _LENGTH_BYTES
        if longest <= most:
            return ""
        return f"holds a value of {longest:,} bytes, and MySQL sorts rows by at most {most:,} bytes"

    def holds_name(self, column: str) -> bool:
        """Return whether the server accepts a column of this name."""
        return len(column) <= _NAME_CHARACTERS

    def key_clause(self, keys: Sequence[str]) -> str:
        """Return the clause for a temporary table's primary key."""
        return f"(PRIMARY KEY ({', '.join(map(self.quote, keys))}))"

    def index(self, table: TableName, column: str) -> str:
        """Return the statement for an index of a text's first characters."""
        return f"ALTER TABLE {self.full(table)} ADD INDEX ({self.quote(column)}({_KEY_CHARACTERS}))"

    def temporary(self, name: str, clause: str, select: str) -> str:
        """Return the statement that creates the table in InnoDB, whatever the default engine is."""
        return f"CREATE TEMPORARY TABLE {name} {clause} ENGINE=InnoDB AS {select}"

    def lock(self, connection: Connection, table: TableName) -> None:
        """Lock other runs of DIL out; other writers meet row locks."""
        # The lock's name contains the database's own name, because a host has many spellings.
        name = f"LOWER(CONCAT(DATABASE(), '/', {MARK}))"
        lock = f"CONCAT('dil.', LEFT(SHA2({name}, 256), 32))"
        if connection.rows(f"SELECT GET_LOCK({lock}, {LOCK_S})", table.name) != [(1,)]:
            raise mysql.driver().err.OperationalError(
                1205, f"another run is writing to {table.name}"
            )

    def delete_matching(self, table: TableName, keys: Mapping[str, str], condition: str) -> str:
        """Return a DELETE with a join, because a subquery would read every row of the table."""
        equal = self.equal("t", "w", keys)
        return f"DELETE t FROM {self.full(table)} t JOIN {WINNERS} w ON {equal} WHERE w.{condition}"

    def upsert(
        self,
        table: TableName,
        columns: Sequence[str],
        keys: Sequence[str],
        condition: str,
        replaced: Sequence[str],
    ) -> str:
        """Return INSERT with ON DUPLICATE KEY UPDATE; the table has only one unique key."""
        names = ", ".join(map(self.quote, columns))
        others = [self.quote(name) for name in replaced if name not in keys]
        others = others or [self.quote(keys[0])]
        updates = ", ".join(f"{name} = VALUES({name})" for name in others)
        return (
            f"INSERT INTO {self.full(table)} ({names}) SELECT {names} FROM {WINNERS} "
            f"WHERE {condition} ON DUPLICATE KEY UPDATE {updates}"
        )

    def insert_once(self, table: TableName, values: Mapping[str, str]) -> str:
        """Return an INSERT that leaves an existing row with the same key unchanged."""
        names = [self.quote(name) for name in values]
        return (
            f"INSERT INTO {self.full(table)} ({', '.join(names)}) "
            f"VALUES ({', '.join(values.values())}) ON DUPLICATE KEY UPDATE {names[0]} = {names[0]}"
        )

    def instant(self, milliseconds: int) -> str:
        """Return the literal of an instant; all times are UTC."""
        return f"TIMESTAMP '{instant_text(milliseconds)}'"


class _Connection(Connection):
    """One connection that loads rows."""

    def __init__(self, session: mysql.MysqlSession) -> None:
        self._session = session
        self._has_local_files = bool(self.rows("SELECT @@local_infile")[0][0])

    def begin(self) -> None:
        """Begin a transaction."""
        self._session.run("START TRANSACTION")

    def commit(self) -> None:
        """Commit."""
        self._session.commit()

    def rollback(self) -> None:
        """Roll back."""
        self._session.rollback()

    def change(self, statement: str, *values: Value) -> int:
        """Run a statement; return the number of changed rows."""
        return self._session.change(statement, *values)

    def rows(self, statement: str, *values: Value) -> list[Row]:
        """Return rows."""
        return self._session.rows(statement, *values)

    def load(
        self, table: TableName, columns: Sequence[TableColumn], batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Load each batch from a text file, or by INSERT."""
        load = self._load_file if self._has_local_files else self._insert
        for batch in batches:
            if batch.num_rows:
                load(quoted(table.name, "`"), columns, batch)

    def _load_file(self, table: str, columns: Sequence[TableColumn], batch: pa.RecordBatch) -> None:
        """Load by LOAD DATA LOCAL; a warning is an error: it may mean changed values."""
        names, sets = [], []
        for number, column in enumerate(columns):
            name = quoted(column.name, "`")
            is_binary = column.type == pa.binary()
            names.append(f"@v{number}" if is_binary else name)
            sets += [f"{name} = UNHEX(@v{number})"] if is_binary else []
        with (
            tempfile.NamedTemporaryFile(prefix="dil-load-") as file,
            self._session.connection.cursor() as cursor,
        ):
            file.write(_lines(batch))
            file.flush()
            loaded = cursor.execute(
                f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {table} CHARACTER SET utf8mb4 "
                f"({', '.join(names)}) {'SET ' if sets else ''}{', '.join(sets)}"
            )
            cursor.execute("SHOW WARNINGS")
            warnings = cursor.fetchall()
        if warnings or loaded != batch.num_rows:
            said = str(warnings[0][2]) if warnings else f"{loaded} of {batch.num_rows} rows loaded"
            raise WriteError(
                f"the table {table} does not take rows as they are: {said}",
                "Check whether the table has a row with this key, or a text is too long for its"
                " column.",
            )

    def _insert(self, table: str, columns: Sequence[TableColumn], batch: pa.RecordBatch) -> None:
        """Insert by statements with many rows each."""
        names = ", ".join(quoted(each.name, "`") for each in columns)
        places = ", ".join(MARK for _ in columns)
        inserted = f"INSERT INTO {table} ({names}) VALUES ({places})"
        statement = with_percents(inserted)
        with self._session.connection.cursor() as cursor:
            for low in range(0, batch.num_rows, _INSERTED_ROWS):
                arrays = [
                    _text(values, is_hex=False) for values in batch.slice(low, _INSERTED_ROWS)
                ]
                rows = zip(*(values.to_pylist() for values in arrays), strict=True)
                cursor.executemany(statement, list(rows))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


def _lines(batch: pa.RecordBatch) -> bytes:
    """Return rows in LOAD DATA's format: tabs between values, a line feed after each row."""
    cells = [_escaped(_text(values, is_hex=True)) for values in batch.columns]
    lines = pc.binary_join_element_wise(*cells, "\t")
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return f"{pc.binary_join(whole, chr(10))[0].as_py()}\n".encode()


def _escaped(texts: pa.Array) -> pa.Array:
    escaped = texts
    for character, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\0", "\\0")):
        if pc.any(pc.match_substring(escaped, character)).as_py():
            escaped = pc.replace_substring(escaped, character, written)
    return escaped.fill_null("\\N")


def _text(values: pa.Array, *, is_hex: bool) -> pa.Array:
    """Return values as MySQL reads them from text; bytes stay bytes unless ``is_hex``."""
    if pt.is_boolean(values.type):
        return values.cast(pa.int8()).cast(pa.string())
    if pt.is_timestamp(values.type):
        return values.cast(pa.timestamp("us")).cast(pa.string())
    if not pt.is_binary(values.type):
        return values.cast(pa.string())
    if not is_hex:
        return values
    return pa.array(
        [None if each is None else each.hex() for each in values.to_pylist()], pa.string()
    )


def _column(row: Row) -> TableColumn:
    name, kind, words, characters, precision, scale, fraction, required, nullable, extra = row
    data_type, limit = _type_of(str(kind), str(words), precision, scale, fraction), None
    if data_type == TEXT and isinstance(characters, int) and kind in {"char", "varchar"}:
        limit = characters
    is_computed = any(word in str(extra).upper() for word in _COMPUTED)
    takes_null = nullable == "YES"
    return TableColumn(
        str(name), data_type, str(words), limit, bool(required), takes_null, is_computed
    )


def _type_of(
    kind: str, words: str, precision: object, scale: object, fraction: object
) -> pa.DataType | None:
    if kind == "tinyint":
        return pa.bool_() if words == "tinyint(1)" else None
    if kind == "decimal" and isinstance(precision, int) and isinstance(scale, int):
        return decimal_type(precision, scale)
    if kind in {"datetime", "timestamp"}:
        return INSTANT if fraction == 6 else None  # noqa: PLR2004 - microseconds
    if kind == "time":
        return pa.time64("us") if fraction == 6 else None  # noqa: PLR2004 - microseconds
    if kind in _INTEGERS and "unsigned" not in words:
        return _INTEGERS[kind]
    return _TYPES.get(kind)


def _sort_buffer(size: int) -> str:
    """Return the session's buffer, or the size if the buffer is smaller.

    On MySQL GREATEST of a variable and a number is a decimal, which no variable takes.
    """
    return f"CAST(GREATEST(@@SESSION.sort_buffer_size, {size}) AS UNSIGNED)"


def _exact_collation(session: mysql.MysqlSession) -> str:
    """Return the server's collation that compares bytes without padding."""
    found = session.exact_collation()
    if not found:
        raise WriteError(
            "the server is too old: it cannot distinguish keys with and without trailing blanks",
            "Use MySQL 8.0.17, MariaDB 10.2 or newer.",
        )
    return found
