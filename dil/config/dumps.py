"""Checks of jobs that dump files as they are: such a job has file names, and no rows.

See rule U6.
"""

from __future__ import annotations

from collections.abc import Iterator

from dil.config.catalog import TYPE, CatalogSection
from dil.config.destinations import DESTINATION, DestinationSection
from dil.config.egress import COMMIT, RESUME, EgressSection, ProgressSection
from dil.config.event_time import COLUMN as EVENTS
from dil.config.event_time import EventTimeSection
from dil.config.findings import Findings
from dil.config.preprocessing import dump_name
from dil.config.publishing import FILE_EACH, MODE, PublishingSection
from dil.config.tables import FIELDS, FORMAT, TablesSection
from dil.config.timelabels import COLUMN as LABELS
from dil.config.timelabels import TimelabelsSection
from dil.config.warehouse import URL, WarehouseSection
from dil.config.writers import WRITER, WriterSection
from dil.config.writing import SYSTEM, WritingSection
from dil.model.destination import TableFormat
from dil.model.job import PublishMode
from dil.model.properties import Properties
from dil.sections.extraction import FILE_NAME, ExtractionSection

_FIX = "Leave it out, or read the files with another ms.extractor.class."


def check_dump(values: Properties, findings: Findings) -> None:
    """Check that a file dump has a file name, and no property that is about rows."""
    if not values.section(ExtractionSection).is_file_dump:
        return
    if not dump_name(values):
        findings.problem(
            FILE_NAME,
            "is required by a file dump and not set",
            "Name the file below data.publisher.final.dir; {{variables}} distinguish work units.",
        )
    for key in _about_rows(values):
        findings.problem(
            key,
            "is about rows, and this job dumps files as they are",
            _FIX,
        )
    publishing = values.section(PublishingSection)
    if not publishing.file_per_unit:
        findings.problem(
            FILE_EACH,
            "is false, and files are dumped as they are: two files cannot be combined",
            _FIX,
        )
    if publishing.mode not in (None, PublishMode.APPEND):
        findings.problem(
            MODE,
            "does not go with a file dump: a file replaces only the file of the same name",
            "Leave it out.",
        )


def _about_rows(values: Properties) -> Iterator[str]:
    """Yield the properties of a job that are about rows."""
    table = values.section(TablesSection)
    asked = {
        FORMAT: table.format is not TableFormat.FILES,
        FIELDS: table.partition_fields,
        URL: values.section(WarehouseSection).url is not None,
        TYPE: values.section(CatalogSection).type != "none",
        DESTINATION: values.section(DestinationSection).name,
        WRITER: values.section(WriterSection).name,
        SYSTEM: values.section(WritingSection).system_columns,
        LABELS: values.section(TimelabelsSection).column,
        EVENTS: values.section(EventTimeSection).column,
        COMMIT: values.section(ProgressSection).commit == "page",
        RESUME: values.section(EgressSection).resumes,
    }
    return (key for key, is_asked in asked.items() if is_asked)
