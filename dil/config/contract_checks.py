"""Checks of the schema contract: something to measure rows by, and a way to keep rows aside."""

from __future__ import annotations

from dil.config.conversion import ConversionSection
from dil.config.egress import progress_key
from dil.config.findings import Findings
from dil.model.properties import Properties

_KEY = "ms.schema.contract"
_COMMIT = "ms.state.cursor.commit"
_FAILURES = "converter.avro.max.conversion.failures"
_PUTS_ASIDE = ("discard_row", "discard_value")


def check_contract(values: Properties, findings: Findings) -> None:
    """Check that a contract can be kept."""
    if not findings.is_sound(_KEY, _COMMIT, "ms.output.schema"):
        return
    mode = values.text(_KEY)
    is_stateless = not values.boolean("state.store.enabled") or "noop" in (
        values.text("state.store.type"),
        values.text("dataset.state.store.type"),
    )
    if mode != "evolve" and is_stateless and not values["ms.output.schema"]:
        findings.problem(
            _KEY,
            f"is {mode}, and no schema is known: without a state store none is recorded",
            "Give the columns with ms.output.schema, or set state.store.enabled=true.",
        )
    puts_aside = mode in _PUTS_ASIDE or values.section(ConversionSection).max_failures > 0
    key = progress_key(values)
    if puts_aside and key:
        findings.problem(
            key,
            "keeps progress, which does not hold the rows that were put aside before",
            f"Leave it out, or set {_KEY}=freeze or evolve with {_FAILURES}=0.",
        )
