"""What a job declares of a database's decimals: floats round them, exact types keep or refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.integration.dil_processes import dil, report_of
from tests.integration.jdbc_jobs import DatabaseJob, jdbc
from tests.jobs import visible_files
from tests.servers.databases import new_database
from tests.servers.mariadb import PASSWORD as MARIADB_PASSWORD
from tests.servers.mariadb import MariadbServer
from tests.servers.postgresql import PASSWORD as POSTGRESQL_PASSWORD
from tests.servers.postgresql import PostgresqlServer

Server = PostgresqlServer | MariadbServer
TABLE = "create table prices (n int, a decimal(10,2), b decimal(10,2), c decimal(38,10), d bigint)"
ROWS = (
    "insert into prices values (1, 99999.99, 99999.99, 0.1234567891, 9007199254740993),"
    " (2, -0.01, 0.10, 12345678901234567890.0123456789, -1), (3, null, null, null, null)"
)
FLOATS = {"n": "int", "a": "double", "b": "float", "c": "double", "d": "double"}
EXPECTED = {
    "a": [99999.99, -0.01, None],
    "b": [99999.9921875, 0.10000000149011612, None],  # the nearest that have 24 bits
    "c": [0.1234567891, 1.2345678901234567e19, None],
    "d": [9007199254740992.0, -1.0, None],
}
PLAIN = {"ms.extractor.class": "json", "writer.output.format": "PARQUET"}
# How DIL's jobs read a database: lines without a header, which Gobblin's converters make typed.
OF_DIL = {
    "source.class": "com.linkedin.cdi.source.JdbcSource",
    "ms.extractor.class": "com.linkedin.cdi.extractor.CsvExtractor",
    "ms.csv": json.dumps({"columnHeaderIndex": -1}),
    "converter.classes": "org.apache.gobblin.converter.csv.CsvToJsonConverterV2,"
    "org.apache.gobblin.converter.avro.JsonIntermediateToAvroConverter",
    "writer.output.format": "AVRO",
}


@pytest.fixture(params=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with new_database(server) as url:
        name = url.rpartition("/")[2]
        server.execute(TABLE, name)
        server.execute(ROWS, name)
        yield jdbc(url)


def job(folder: Path, server: Server, url: str, declared: dict[str, str], **changes: str) -> Any:
    is_postgresql = isinstance(server, PostgresqlServer)
    columns = ", ".join(declared)
    properties = {
        "source.conn.username": "admin",
        "source.conn.password": POSTGRESQL_PASSWORD if is_postgresql else MARIADB_PASSWORD,
        "ms.output.schema": json.dumps([schema_of(*each) for each in declared.items()]),
        **changes,
    }
    return DatabaseJob(folder, url, f"select {columns} from prices order by n", **properties)


def schema_of(name: str, word: str) -> dict[str, Any]:
    """Return one member of ``ms.output.schema``; a decimal is written ``decimal 10 2``."""
    kind, *digits = word.split()
    sizes = dict(zip(("precision", "scale"), map(int, digits), strict=False))
    return {"columnName": name, "isNullable": "true", "dataType": {"type": kind, **sizes}}


def published(each: DatabaseJob) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Return the types of the columns and their values, in the order of ``n``."""
    if each.properties["writer.output.format"] == "PARQUET":
        table = each.table().sort_by("n")
        types = {field.name: str(field.type) for field in table.schema}
        return types, table.to_pydict()
    (path,) = visible_files(each.folder)
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        rows = sorted(reader, key=lambda row: row["n"])
        fields = reader.writer_schema["fields"]
    types = {field["name"]: next(kind for kind in field["type"] if kind != "null")
             for field in fields}  # fmt: skip
    return types, {name: [row[name] for row in rows] for name in types}


@pytest.mark.spark
@pytest.mark.parametrize("idiom", [PLAIN, OF_DIL], ids=["plain", "dil"])
def test_columns_that_are_declared_floats_take_decimals_by_rounding(
    tmp_path: Path, server: Server, url: str, idiom: dict[str, str]
) -> None:
    one = job(tmp_path, server, url, FLOATS, **idiom)
    one.job()

    done = dil("run", tmp_path / "rows.conf", "--now", "2025-01-01T00:00:00Z", "--json")

    assert done.returncode == 0, (done.stdout, done.stderr)
    assert report_of(done)["rows"] == 3
    found, values = published(one)
    assert found == FLOATS | {"n": found["n"]}
    assert {name: values[name] for name in EXPECTED} == EXPECTED


@pytest.mark.parametrize("idiom", [PLAIN, OF_DIL], ids=["plain", "dil"])
@pytest.mark.parametrize(
    ("column", "declared"), [("a", "decimal 10 1"), ("a", "long"), ("c", "decimal 20 10")]
)
def test_a_value_that_a_declared_exact_type_does_not_hold_fails_its_work_unit(
    tmp_path: Path, server: Server, url: str, idiom: dict[str, str], column: str, declared: str
) -> None:
    report = job(tmp_path, server, url, {"n": "int", column: declared}, **idiom).run()

    (failure,) = report.failures
    assert failure.code == "DIL-CONVERT"
    assert f'column "{column}"' in failure.error
    assert visible_files(tmp_path) == []


def test_a_column_that_nobody_declared_stays_exact(
    tmp_path: Path, server: Server, url: str
) -> None:
    one = job(tmp_path, server, url, FLOATS, **PLAIN, **{"ms.output.schema": ""})
    assert one.run().rows == 3
    table = one.table().sort_by("n")
    assert table.schema.field("a").type == pa.decimal128(10, 2)
    assert table.column("a").to_pylist() == [Decimal("99999.99"), Decimal("-0.01"), None]
    assert table.column("c").to_pylist()[1] == Decimal("12345678901234567890.0123456789")
    assert table.column("d").to_pylist() == [9007199254740993, -1, None]
