"""``ms.merge.*`` and DIL's keys to how rows are merged. Source: spec README 20."""

from __future__ import annotations

from dil.config.findings import Findings
from dil.model.destination import MergeSpec, TableFormat
from dil.model.job import PublishMode
from dil.model.properties import Properties

KEYS = "extract.primary.key.fields"
MISSING = "ms.merge.delete.missing"
_APART = "ms.table.partition.fields"
_OP = "ms.merge.op.field"


def merge_section(values: Properties, mode: PublishMode, findings: Findings) -> MergeSpec | None:
    """Return how rows are merged, None for another publish mode."""
    if mode is not PublishMode.MERGE:
        _note_no_effect(values, mode, findings)
        return None
    keys = values.typed(KEYS, tuple)
    if not keys:
        findings.problem(
            KEYS,
            "is not set, and rows are merged by it",
            "Name the columns that tell rows apart, or set ms.publish.mode=append.",
            values.origin("ms.publish.mode") or values.origin("ms.warehouse.operation"),
        )
    _check_apart(values, findings)
    if not values.text(_OP):
        _note_unused_deletes(values, findings)
    return MergeSpec(
        keys=keys,
        delta_fields=values.typed("extract.delta.fields", tuple),
        op_field=values.text(_OP),
        delete_words=tuple(word.lower() for word in values.typed("ms.merge.op.deletes", tuple)),
        is_soft=values.text("ms.merge.deletes") == "soft",
        deletes_missing=values.boolean(MISSING),
        max_deleted_percent=values.integer("ms.merge.delete.limit.percent"),
    )


def _note_unused_deletes(values: Properties, findings: Findings) -> None:
    """Say what has no effect because no row tells of a delete."""
    unused = ["ms.merge.op.deletes"]
    unused += [] if values.boolean(MISSING) else ["ms.merge.deletes"]
    for name in unused:
        if name in values.explicit:
            findings.notice(
                name,
                f"has no effect: {_OP} names no column that tells of deletes",
                f"Set {_OP}, or leave the property out.",
            )


def _check_apart(values: Properties, findings: Findings) -> None:
    """Refuse to look for keys and deletes in files that do not hold them."""
    if values.text("ms.table.format") == TableFormat.ICEBERG:
        return
    apart = values.typed(_APART, tuple)
    looked_at = {
        KEYS: values.typed(KEYS, tuple),
        "extract.delta.fields": values.typed("extract.delta.fields", tuple),
        _OP: (values.text(_OP),),
    }
    for name, fields in looked_at.items():
        for field in fields:
            if field in apart:
                findings.problem(
                    name,
                    f'names "{field}", which is one of {_APART}: it is in the names of folders '
                    "only, and rows cannot be merged by it",
                    f"Take it out of {_APART}, or use ms.table.format=iceberg.",
                )


def _note_no_effect(values: Properties, mode: PublishMode, findings: Findings) -> None:
    for name in sorted(values.explicit):
        if name.startswith("ms.merge."):
            findings.notice(
                name,
                f"has no effect: rows are merged with ms.publish.mode=merge, and it is {mode}",
                "Set ms.publish.mode=merge, or leave the property out.",
            )
