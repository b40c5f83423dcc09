"""A contract needs a schema to measure by, and rows aside need a place."""

from __future__ import annotations

import json

import pytest

from dil.model.schema import ContractMode, QuarantineSpec
from tests.unit.config.conftest import JobFile

SCHEMA = json.dumps([{"columnName": "id", "dataType": {"type": "long"}}])
PAGES = {
    "ms.state.cursor.commit": "page",
    "ms.parameters": json.dumps([{"name": "cursor", "type": "session"}]),
    "ms.session.key.field": json.dumps({"name": "next"}),
}


def test_without_words_of_its_own_a_job_evolves_and_keeps_all_rows_aside(job_file: JobFile) -> None:
    conversion = job_file.load().job.conversion
    assert conversion.contract is ContractMode.EVOLVE
    assert conversion.quarantine == QuarantineSpec(enabled=True, max_rows=None)


@pytest.mark.parametrize("word", ["freeze", "Discard_Row", "DISCARD_VALUE"])
def test_modes_are_read_in_any_case(job_file: JobFile, word: str) -> None:
    job = job_file.load({"ms.schema.contract": word, "ms.quarantine.max.rows": "0"}).job
    assert job.conversion.contract.value == word.lower()
    assert job.conversion.quarantine.max_rows == 0


def test_an_unknown_mode_names_the_nearest_one(job_file: JobFile) -> None:
    assert "freeze" in job_file.problem("ms.schema.contract", "freez").fix


@pytest.mark.parametrize("state", [{"state.store.enabled": "false"}, {"state.store.type": "noop"}])
def test_a_contract_without_state_needs_a_declared_schema(
    job_file: JobFile, state: dict[str, str]
) -> None:
    facts = {**state, "ms.schema.contract": "freeze"}
    (found,) = job_file.problems(facts)
    assert found.key == "ms.schema.contract"
    assert "ms.output.schema" in found.fix
    job_file.load({**facts, "ms.output.schema": SCHEMA})
    job_file.load({**state, "ms.schema.contract": "evolve"})


@pytest.mark.parametrize(
    "facts",
    [
        {"ms.schema.contract": "discard_row"},
        {"ms.schema.contract": "discard_value"},
        {"converter.avro.max.conversion.failures": "5"},
    ],
)
def test_rows_aside_and_progress_inside_work_units_exclude_each_other(
    job_file: JobFile, facts: dict[str, str]
) -> None:
    (found,) = job_file.problems({**PAGES, **facts})
    assert found.key == "ms.state.cursor.commit"
    job_file.load({**PAGES, "ms.schema.contract": "freeze"})
