"""Date patterns that are valid and nearly always a slip: ``ms.lint.patterns``."""

from __future__ import annotations

import json

import pytest

from dil.text.joda_writing import UNWRITABLE_FIX

DATES = "converter.avro.date.format"
SLIPS = [
    ("YYYY-MM-DD", "YYYY-MM-dd"),
    ("%Y-%m-%d", "yyyy-MM-dd"),
    ("%Y-%m-%dT%H:%M:%S", "yyyy-MM-dd'T'HH:mm:ss"),
    ("YYYY-MM-DDTHH:mm:ss", "YYYY-MM-dd'T'HH:mm:ss"),
    ("yyyy-MM-dd hh:mm:ss", "yyyy-MM-dd HH:mm:ss"),
    ("yyyy-mm-dd", "yyyy-MM-dd"),
    ("yyyy-mm-dd HH:mm:ss", "yyyy-MM-dd HH:mm:ss"),
    ("dd/MM/yyyy HH:MM", "dd/MM/yyyy HH:mm"),
    ("HH:mm:SS", "HH:mm:ss"),
    ("xxxx-MM-dd", "yyyy-MM-dd"),
    ("xxxx-mm-DD'T'hh:mm", "yyyy-MM-dd'T'HH:mm"),
    ("mm", "MM"),
    ("mm:ss", "HH:mm:ss"),
    ("mm:ss.SSS", "HH:mm:ss.SSS"),
    ("dd 'o''clock' mm yyyy", "dd 'o''clock' MM yyyy"),
]
SOUND = [
    "YYYY-MM-dd",
    "yyyy-DDD",
    "yyyy-MM-dd hh:mm a",
    "yyyy-MM-dd KK:mm a",
    "xxxx-'W'ww-e",
    "HH:mm:ss.SSS",
    "dd.MM.yyyy '%d' HH:mm",
    "yyyy 100% dd",
    "yyyyMMdd'T'HHmmssZ",
]


@pytest.mark.parametrize(("pattern", "likely"), SLIPS)
def test_a_pattern_that_hardly_says_what_was_meant_is_refused_with_the_likely_one(
    job_file, pattern, likely
):
    (found,) = job_file.problems({DATES: pattern})
    assert found.key == DATES
    assert likely in found.fix
    if "DDT" not in pattern and "dT" not in pattern:  # letters that Joda does not have
        assert "ms.lint.patterns=off" in found.fix
        assert job_file.notices({DATES: pattern, "ms.lint.patterns": "off"}) == []
    assert job_file.notices({DATES: likely}) == []


@pytest.mark.parametrize("pattern", SOUND)
def test_a_pattern_keeps_the_meaning_of_jodas_letters(job_file, pattern):
    assert job_file.notices({DATES: pattern}) == []


@pytest.mark.parametrize("form", ["date", "time", "timestamp"])
def test_each_pattern_of_a_list_is_looked_at(job_file, form):
    (found,) = job_file.problems({f"converter.avro.{form}.format": "yyyy-MM-dd,MM/DD/yyyy"})
    assert '"MM/DD/yyyy"' in found.what
    assert "MM/dd/yyyy" in found.fix


def test_patterns_of_watermark_parameters_are_looked_at(job_file):
    since = {"name": "since", "type": "watermark", "format": "datetime", "pattern": "YYYY-MM-DD"}
    inside = {"name": "between", "type": "object", "value": [since]}
    ranges = [
        {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}},
    ]
    for parameter in (since, inside):
        job = {"ms.parameters": json.dumps([parameter]), "ms.watermark": json.dumps(ranges)}
        (found,) = job_file.problems(job)
        assert found.key == "ms.parameters"
        assert '"since"' in found.what
        assert "YYYY-MM-dd" in found.fix


def test_iso_is_a_word_for_the_pattern_of_a_watermark_parameter(job_file):
    since = {"name": "since", "type": "watermark", "format": "datetime", "pattern": "ISO"}
    job = job_file.load({"ms.parameters": json.dumps([since])}).job
    assert job.extraction.parameters[0].pattern == "yyyy-MM-dd'T'HH:mm:ssZZ"


@pytest.mark.parametrize("zone", ["Europe/Paris", "+05:30", ""])
def test_a_parameter_cannot_write_a_zone_name_that_is_not_certain(job_file, zone):
    since = {"name": "since", "type": "watermark", "format": "datetime", "pattern": "HH:mm z"}
    job = {"ms.timezone": "Asia/Tokyo", "ms.parameters": json.dumps([{**since, "timezone": zone}])}
    (found,) = job_file.problems(job)
    assert found.key == "ms.parameters"
    assert '"since"' in found.what
    assert found.fix == UNWRITABLE_FIX


def test_a_parameter_can_write_the_date_of_an_http_header(job_file):
    http = "EEE, dd MMM yyyy HH:mm:ss z"
    since = {"name": "since", "type": "watermark", "format": "datetime", "pattern": http}
    job_file.load({"ms.parameters": json.dumps([{**since, "timezone": "GMT"}])})


def test_patterns_of_derived_fields_are_looked_at(job_file):
    formula = {"type": "epoc", "source": "ordered", "format": "%d.%m.%Y"}
    job = {"ms.derived.fields": json.dumps([{"name": "at", "formula": formula}])}
    (found,) = job_file.problems(job)
    assert found.key == "ms.derived.fields"
    assert "dd.MM.yyyy" in found.fix


@pytest.mark.parametrize("word", ["iso", "ISO", "dd.MM.yyyy, iso"])
def test_iso_is_a_word_among_the_patterns_of_columns(job_file, word):
    loaded = job_file.load({"converter.avro.timestamp.format": word})
    assert loaded.job.conversion.timestamp_formats[-1] == "iso"
    assert loaded.notices == ()
