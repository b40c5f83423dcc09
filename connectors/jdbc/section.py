"""The properties of databases that the connector alone reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from dil.model.section import ONE_OF, Bool, Section, Text, prop


@dataclass(frozen=True, slots=True)
class JdbcSection(Section):
    """The properties that say how to read a database."""

    letters: Annotated[Literal["none", "toupper", "tolower"], ONE_OF] = prop(
        "ms.jdbc.schema.refactor",
        "Letter case of the column names of a database source.",
        default="none",
    )
    invalid_dates: Annotated[Literal["fail", "null"], ONE_OF] = prop(
        "ms.jdbc.invalid.dates",
        "How a database source treats dates that no calendar has, such as `0000-00-00` of MySQL"
        " and `infinity` of PostgreSQL: as an error (`fail`), or as null.",
        default="fail",
    )
    is_read_only: Bool = prop(
        "ms.jdbc.read.only",
        "Whether queries of a database source run in a transaction, or on a file, that cannot be"
        " written.",
        default=True,
        identity=False,
    )
    reader: Annotated[Literal["driver", "spark"], ONE_OF] = prop(
        "ms.jdbc.reader",
        "The reader of a database source's rows: a Python driver in each task (`driver`), or"
        " Spark with a JDBC driver (`spark`), for databases without a Python driver here. With"
        " `spark`, `ms.source.uri` is any `jdbc:` URL, and there are no pages.",
        default="driver",
    )
    driver_jar: Text = prop(
        "ms.jdbc.driver.jar",
        "Jar of the JDBC driver for `ms.jdbc.reader=spark`, or several jars, separated by commas."
        " A relative path starts at the job file's folder. If it is left out, Spark must have the"
        " jar (`--jars`).",
        default="",
        identity=False,
    )
    driver_class: Text = prop(
        "ms.jdbc.driver.class",
        "Class of the JDBC driver, if its jar does not name the class.",
        default="",
        identity=False,
    )
