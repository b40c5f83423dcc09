"""``dil schema``: what editors check a ``.yaml`` job file with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from dil.config.canonical import DEPRECATED
from dil.config.findings import Findings
from dil.config.json_schema import json_schema
from dil.config.property import form_of
from dil.config.reader import read_job
from dil.config.table import ALIASES, TABLE, lookup
from dil.text.lenient_json import parse

ROOT = Path(__file__).parents[3]
JOBS = sorted((ROOT / "conf").rglob("*.conf"))
EXAMPLES = {entry.name: form.example for entry in TABLE.values() if (form := form_of(entry))}
VALIDATOR = Draft202012Validator(json_schema())


def refused(job: object) -> list[str]:
    return [error.json_path for error in VALIDATOR.iter_errors(job)]


def as_yaml(path: Path) -> dict[str, object]:
    """Return a job file as someone would write it in YAML: numbers, lists and objects bare."""
    found: dict[str, object] = {}
    for key, entry in read_job(str(path), Findings()).items():
        known = lookup(key)
        is_json = known is not None and known.type.spans_lines and entry.text[:1] in "[{"
        is_plain = is_json or ": " in entry.text or "{" in entry.text
        value = parse(entry.text)[0] if is_json else entry.text
        found[key] = value if is_plain else yaml.safe_load(entry.text)
    return found


def nested(flat: dict[str, object]) -> dict[str, object]:
    """Return the same keys nested at every dot where none of them is a property itself."""
    root: dict[str, object] = {}
    for key, value in flat.items():
        node, rest, prefix = root, key, ""
        while "." in rest:
            head, _, tail = rest.partition(".")
            if f"{prefix}{head}" in TABLE:
                break
            node = node.setdefault(head, {})  # type: ignore[assignment]
            rest, prefix = tail, f"{prefix}{head}."
        node[rest] = value
    return root


def test_the_schema_is_one():
    Draft202012Validator.check_schema(json_schema())


def test_the_schema_knows_every_property_alias_and_old_key_and_describes_it():
    schema = json.loads(json.dumps(json_schema()))
    names = {*TABLE, *ALIASES, *DEPRECATED, "include"}
    assert names <= set(schema["properties"])
    assert all(schema["$defs"][name]["description"] for name in names)
    assert {name for name in DEPRECATED if schema["$defs"][name].get("deprecated")} == set(
        DEPRECATED
    )


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
def test_every_example_job_is_accepted_flat_and_nested(path):
    job = as_yaml(path)
    assert refused(job) == []
    assert refused(nested(job)) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_every_json_property_is_accepted_as_value_and_as_text(name):
    value = json.loads(EXAMPLES[name])
    assert refused({name: value}) == []
    assert refused({name: EXAMPLES[name]}) == []


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.default])
def test_every_default_is_accepted_bare_quoted_and_blank(name):
    default = TABLE[name].default
    bare = json.loads(default) if TABLE[name].type.is_json else yaml.safe_load(default)
    assert [refused({name: value}) for value in (bare, default, None, "", "${x}")] == [[]] * 5


MISTAKES: dict[str, object] = {
    "ms.work.unit.paralelism.max": 5,
    "ms.parameter": [],
    "ms.x": 1,
    "ms.work.unit.partition": "dayly",
    "extract.table.type": "SNAPSHOT_APEND",
    "ms.backfill": "yes",
    "ms.http.conn.max": 900,
    "task.maxretries": "two",
    "ms.grace.period": "2 days",
    "writer.dir.permissions": "rwx",
    "ms.pagination": [0, 100],
    "ms.authentication": {"method": "baerer", "encryption": "none"},
    "ms.http.statuses": {"sucess": [200]},
    "ms.session.key.field": {"nam": "x"},
    "ms.derived.fields": [{"name": "a", "formula": {"type": "epoch"}}],
    "ms.output.schema": [{"colunmName": "a"}],
    "ms.watermark": [{"name": "s", "type": "datetme"}],
    "ms": {"work.unit.paralelism.max": 5},
}


@pytest.mark.parametrize("key", MISTAKES)
def test_a_typo_is_refused(key):
    assert refused({key: MISTAKES[key]}) != []


def test_keys_of_others_and_of_plug_ins_are_accepted():
    assert refused({"my.own.key": 1, "ms.x.shop.key": "a", "ms": {"x": {"shop": 1}}}) == []
