"""Reads and checks the properties by which a derived dataset leaves out repeated rows."""

from __future__ import annotations

from dil.config.findings import Findings
from dil.config.property import names_of
from dil.model.dedupe import COLUMN, KEYS, WITHIN, DedupeSpec
from dil.model.job import PublishingSpec, PublishMode, QueryMode
from dil.model.properties import Properties
from dil.sections.conversion import ENCRYPTED, EncryptionSection
from dil.sections.dedupe import DedupeSection
from dil.sections.query import MODE

_APART = "Let a job of its own leave repeats out, and read its dataset."


def dedupe_spec(
    publishing: PublishingSpec, values: Properties, mode: QueryMode, findings: Findings
) -> DedupeSpec | None:
    """Return the rule for repeats, None if all rows are published; problems become findings."""
    section = values.section(DedupeSection)
    if not section.keys:
        for name in sorted(names_of(DedupeSection) & values.explicit):
            findings.problem(name, f"has no effect without {KEYS}", f"Set {KEYS} as well.")
        return None
    if mode is QueryMode.WINDOWED:
        findings.problem(KEYS, f"does not go with {MODE}={mode}", _APART)
    if publishing.mode is PublishMode.MERGE:
        findings.problem(
            KEYS,
            "does not go with ms.publish.mode=merge, which has keys of its own",
            "Leave one of the two out.",
        )
    if not publishing.keeps_files:
        findings.problem(
            KEYS,
            f"looks for earlier rows among published files, and {publishing.place_key} publishes "
            "elsewhere",
            _APART,
        )
    for name, value, fix in (
        (COLUMN, section.column.strip(), "Name the column with the time of a row."),
        (WITHIN, section.within_ms, "Write an ISO duration, such as PT1H."),
    ):
        if value in ("", None) and findings.is_sound(name):
            findings.problem(KEYS, f"is set, and {name} is not", fix)
    encrypted = {path.split(".")[0] for path in values.section(EncryptionSection).paths}
    for name in (*section.keys, section.column.strip()):
        if name in encrypted:
            what = f'names "{name}", which {ENCRYPTED} encrypts: it cannot be compared'
            findings.problem(KEYS if name in section.keys else COLUMN, what, "Name another column.")
    return DedupeSpec(section.keys, section.column.strip(), section.within_ms or 0)
