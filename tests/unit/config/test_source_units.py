"""Files read once, ranges of keys: what goes with units that the source names."""

from __future__ import annotations

import pytest

from dil.errors import ConfigError

ONCE = {"source.class": "hdfs", "ms.source.uri": "/data/in", "ms.source.files.once": "version"}
COLUMNS = '[{"columnName":"id","dataType":{"type":"string"}}]'
RANGE = '[{{"name":"t","type":"datetime","range":{{"from":"{}","to":"-"}}}}]'


@pytest.mark.parametrize(
    ("changes", "key", "what"),
    [
        ({"ms.work.unit.partition": "daily"}, "ms.work.unit.partition", "cuts time"),
        ({"ms.watermark": RANGE.format("P3D")}, "ms.watermark", "another time in each run"),
        (
            {"ms.watermark": '[{"name":"u","type":"unit","units":"a,b"}]'},
            "ms.watermark",
            "declares units while",
        ),
        ({"ms.publish.mode": "replace"}, "ms.source.files.once", "reads only new files"),
        (
            {"ms.secondary.input": '[{"path":"/ids","fields":["id"]}]'},
            "ms.secondary.input",
            "takes the units from the source",
        ),
    ],
)
def test_what_contradicts_reading_each_file_once_is_refused(job_file, changes, key, what):
    with pytest.raises(ConfigError) as caught:
        job_file.load({**ONCE, **changes})
    found = [problem for problem in caught.value.problems if problem.key == key]
    assert any(what in problem.what for problem in found)


@pytest.mark.parametrize("again", [{"ms.grace.period.days": "1"}, {"ms.abstinent.period": "PT1H"}])
def test_reading_again_has_no_effect_where_each_file_is_read_once(job_file, again):
    (notice,) = job_file.load({**ONCE, "ms.output.schema": COLUMNS, **again}).notices
    assert [notice.key] == [*again]
    assert "has no effect: ms.source.files.once reads each file once" in notice.what


def test_rows_of_files_that_are_read_once_are_never_missing(job_file):
    merge = {"ms.publish.mode": "merge", "extract.primary.key.fields": "id"}
    (found,) = job_file.problems({**ONCE, **merge, "ms.merge.delete.missing": "true"})
    assert found.key == "ms.merge.delete.missing"
    assert "this job reads each file once" in found.what


def test_a_job_that_reads_each_file_once_has_its_units_from_the_source(job_file):
    planning = job_file.load({**ONCE, "ms.watermark": RANGE.format("2024-01-01")}).job.planning
    assert (planning.units, planning.of_source, planning.once) == (None, True, "version")


RANGES = {
    "source.class": "jdbc",
    "ms.source.uri": "jdbc:postgresql://db/shop",
    "ms.jdbc.statement": "select * from orders",
    "ms.jdbc.partition.column": "id",
}


def test_a_job_that_is_cut_into_ranges_of_a_key_replaces_its_dataset(job_file):
    planning = job_file.load({**RANGES, "ms.publish.mode": "replace"}).job.planning
    assert (planning.units, planning.of_source, planning.once) == (None, True, "")
    with pytest.raises(ConfigError) as caught:
        job_file.load({**RANGES, "ms.publish.mode": "append"})
    (found,) = caught.value.problems
    assert (found.key, found.fix) == ("ms.jdbc.partition.column", "Set ms.publish.mode=replace.")


def derived(variable: str) -> dict[str, str]:
    formula = f'{{"type":"string","source":"{{{{{variable}}}}}"}}'
    return {"ms.derived.fields": f'[{{"name":"from","formula":{formula}}}]'}


@pytest.mark.parametrize(
    ("properties", "variable"),
    [
        (ONCE, "file"),
        (ONCE, "version"),
        ({**ONCE, "ms.source.files.once": "path"}, "file"),
        ({**RANGES, "ms.publish.mode": "replace"}, "range"),
    ],
)
def test_members_of_the_units_of_a_source_are_variables(job_file, properties, variable):
    (field,) = job_file.load({**properties, **derived(variable)}).job.conversion.derived_fields
    assert field.formula.source == f"{{{{{variable}}}}}"


@pytest.mark.parametrize(
    ("properties", "variable"),
    [
        ({**ONCE, "ms.source.files.once": "path"}, "version"),
        ({**ONCE, "ms.source.files.once": "none"}, "file"),
        (ONCE, "range"),
    ],
)
def test_what_is_no_member_of_the_units_of_a_source_has_no_value(job_file, properties, variable):
    (found,) = job_file.problems({**properties, **derived(variable)})
    assert "which nothing gives a value" in found.what


def test_a_changed_file_that_would_replace_nothing_is_refused(job_file):
    replacing = {**ONCE, "ms.publish.mode": "window_replace"}
    (found,) = job_file.problems(replacing)
    assert found.key == "ms.source.files.once"
    assert "there twice" in found.what
    for change in ({"ms.source.files.once": "path"}, {"ms.publish.mode": "append"}):
        assert job_file.load({**replacing, **change}).job.planning.once
    assert job_file.load({**replacing, "ms.backfill": "true"}).job.planning.backfill


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"ms.source.files.once": "path"}, "ms.source.files.once"),
        ({**RANGES, "ms.source.files.once": "path"}, "ms.source.files.once"),
        ({**ONCE, "ms.jdbc.partition.column": "id"}, "ms.jdbc.partition.column"),
    ],
)
def test_units_that_a_source_does_not_have_are_refused(job_file, properties, key):
    with pytest.raises(ConfigError) as caught:
        job_file.load(properties)
    found = [problem.what for problem in caught.value.problems if problem.key == key]
    assert any(what.startswith("asks for units that") for what in found)
