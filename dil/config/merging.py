"""``ms.merge.*``: how rows are merged by DIL's keys. See rule U18."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from dil.config.destinations import FIELDS, OPERATION, TablesSection
from dil.config.findings import Findings
from dil.config.identity import DELTAS, KEYS, DatasetSection
from dil.config.property import names_of
from dil.model.destination import MAX_DELETED_PERCENT, MergeSpec, TableFormat
from dil.model.job import PublishMode
from dil.model.properties import Properties
from dil.model.section import ONE_OF, Bool, Int, Section, Text, Texts, prop

MISSING = "ms.merge.delete.missing"
OP_FIELD = "ms.merge.op.field"
_WORDS, _DELETES = "ms.merge.op.deletes", "ms.merge.deletes"


@dataclass(frozen=True, slots=True)
class MergingSection(Section):
    """How the source marks changed rows, and how a merge treats deleted rows."""

    op_field: Text = prop(
        OP_FIELD,
        "Column with the operation that changed a row at the source, such as `op` of a change log.",
        default="",
    )
    delete_words: Texts = prop(
        _WORDS,
        "Values of that column that mark a deleted row, in any letter case.",
        default=("d", "delete", "deleted"),
    )
    deletes: Annotated[Literal["hard", "soft"], ONE_OF] = prop(
        _DELETES,
        "hard removes deleted rows; soft keeps them, with the time in `_dil_deleted_at`.",
        default="hard",
    )
    deletes_missing: Bool = prop(
        MISSING,
        "Whether a full reading deletes the rows whose keys it did not find.",
        default=False,
    )
    max_deleted_percent: Annotated[Int, Ge(0), Le(100)] = prop(
        "ms.merge.delete.limit.percent",
        "Largest share of the dataset's rows, in percent, that a run may delete because the source "
        "no longer has them; a larger share fails the run.",
        default=MAX_DELETED_PERCENT,
    )


def merge_spec(values: Properties, mode: PublishMode, findings: Findings) -> MergeSpec | None:
    """Return the merge settings; None for another publish mode."""
    if mode is not PublishMode.MERGE:
        findings.unused(
            names_of(MergingSection),
            f"has no effect: rows are merged with ms.publish.mode=merge, and it is {mode}",
            "Set ms.publish.mode=merge, or leave the property out.",
        )
        return None
    dataset = values.section(DatasetSection)
    if not dataset.primary_keys:
        findings.problem(
            KEYS,
            "is not set, and rows are merged by it",
            "Name the columns that distinguish rows, or set ms.publish.mode=append.",
            values.origin("ms.publish.mode") or values.origin(OPERATION),
        )
    section, table = values.section(MergingSection), values.section(TablesSection)
    compared = {
        KEYS: dataset.primary_keys,
        DELTAS: dataset.delta_fields,
        OP_FIELD: (section.op_field,),
    }
    # The files of an Iceberg table hold the columns that separate rows; other files do not.
    only_folders = () if table.format is TableFormat.ICEBERG else table.partition_fields
    for name, fields in compared.items():
        for field in fields:
            if field in only_folders:
                findings.problem(
                    name,
                    f'names "{field}", which is one of {FIELDS}: only the names of folders '
                    "have its values, and rows cannot be merged by it",
                    f"Take it out of {FIELDS}, or use ms.table.format=iceberg.",
                )
    if not section.op_field:
        findings.unused(
            (_WORDS,) if section.deletes_missing else (_WORDS, _DELETES),
            f"has no effect: {OP_FIELD} names no column that marks deletes",
            f"Set {OP_FIELD}, or leave the property out.",
        )
    return MergeSpec(
        keys=dataset.primary_keys,
        delta_fields=dataset.delta_fields,
        op_field=section.op_field,
        delete_words=tuple(word.lower() for word in section.delete_words),
        is_soft=section.deletes == "soft",
        deletes_missing=section.deletes_missing,
        max_deleted_percent=section.max_deleted_percent,
    )
