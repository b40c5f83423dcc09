"""Base classes of plug-ins, and a job's sections by name, such as ``dil.spi.PagingSection``.

The sections are in ``dil.sections``, which imports more than a contract may. So this package
imports a section only when a plug-in uses its name.
"""

from importlib import import_module
from typing import Any

SECTIONS = {
    "ContentTypesSection": "http",
    "ConversionSection": "conversion",
    "CsvSection": "extraction",
    "DatabaseSection": "source",
    "DedupeSection": "query",
    "DerivedSection": "conversion",
    "DumpSection": "extraction",
    "EncryptionSection": "conversion",
    "ExtractionSection": "extraction",
    "FileSystemsSection": "file_systems",
    "FilesSection": "source",
    "LimitsSection": "http",
    "NormalizerSection": "conversion",
    "PagingSection": "paging",
    "ParametersSection": "parameters",
    "QuerySection": "query",
    "RangesSection": "conversion",
    "SchemaSection": "schema",
    "SecondarySection": "secondary",
    "SendingSection": "http",
    "SourceSection": "source",
    "ValidationSection": "conversion",
    "WindowSection": "query",
}


def __getattr__(name: str) -> Any:  # a class; the name decides which one
    if name not in SECTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dil.sections.{SECTIONS[name]}"), name)
