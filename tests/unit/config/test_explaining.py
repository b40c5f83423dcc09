"""``dil explain``: properties, groups, old keys, and what is none of them."""

from __future__ import annotations

import json

import pytest

from dil.config.canonical import MISSPELLED
from dil.config.explaining import (
    elsewhere,
    example,
    explain,
    explained,
    groups_json,
    groups_text,
    search,
)
from dil.config.table import GROUPS, TABLE
from dil.errors import ConfigError
from dil.spi.connector import Connector, PluginProperty


@pytest.mark.parametrize("name", TABLE)
def test_every_property_is_explained_in_words_and_as_json(name):
    text, facts = explain(name), json.loads(json.dumps(explained(name)))
    assert text.startswith(f"{name}\n    {TABLE[name].meaning}")
    assert f"docs/reference/properties.md#{name}" in text
    assert facts["property"] == name
    assert facts["type"] == TABLE[name].type.value
    assert name not in facts["related"]
    assert set(facts["related"]) <= set(TABLE)


def test_an_explanation_tells_old_names_related_properties_and_an_example():
    assert explained("ms.sftp.conn.timeout.millis")["old_names"] == ("sftpConn.timeout",)
    assert "old names: ms.encoding" in explain("ms.source.data.character.set")
    text = explain("data.publisher.replace.final.dir")
    assert "related: ms.publish.mode" in text
    assert "ms.grace.period=P2D" in explain("ms.grace.period")


@pytest.mark.parametrize("wrong", MISSPELLED)
def test_a_misspelling_that_is_refused_is_no_old_name(wrong):
    assert wrong not in explained(MISSPELLED[wrong])["old_names"]
    assert f"old names: {wrong}" not in explain(MISSPELLED[wrong])


def test_variables_of_secondary_input_are_told_where_they_are_replaced():
    assert "is replaced in it" not in explain("ms.secondary.input")
    assert not explained("ms.secondary.input")["variables"]
    assert "`{{name}}` is replaced only in the path of a `payload` entry" in explain(
        "ms.secondary.input"
    )


def test_examples_of_plain_properties_are_lines_of_a_job(job_file):
    settings = {
        name: example(TABLE[name]).partition("=")[2]
        for name in ("ms.timezone", "ms.grace.period", "writer.dir.permissions", "task.maxretries")
    }
    job_file.load(settings)


def test_groups_are_listed_and_each_lists_its_properties():
    for group in GROUPS:
        assert group.slug in groups_text()
        text = explain(group.slug)
        assert all(entry.name in text for entry in group.properties)
    assert [each["group"] for each in groups_json()["groups"]] == [group.slug for group in GROUPS]
    assert explained("http")["properties"] == [entry.name for entry in TABLE_OF["http"].properties]


TABLE_OF = {group.slug: group for group in GROUPS}


def test_an_old_key_names_what_took_its_place():
    assert explained("dataset.name")["replaced_by"] == "extract.table.name"
    assert explained("ms.watermark.type")["replaced_by"] is None
    assert "Use ms.parameters." in explain("ms.parameter")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("ms.parametrs", 'Did you mean "ms.parameters"?'),
        ("parallelism", "These names contain it: ms.work.unit.parallelism.max."),
        ("ms.jdbc", "ms.jdbc.driver.class."),
        ("ms.", " more."),
        ("htp", 'Did you mean "http"?'),
        ("zzz", "lists all groups"),
    ],
)
def test_an_unknown_name_tells_the_nearest(name, fix):
    for tell in (explain, explained):
        with pytest.raises(ConfigError) as caught:
            tell(name)
        assert fix in caught.value.problems[0].fix


# What is not in the reference, and words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("source.class", {"http", "jdbc", "s3", "sftp"}),
        ("ms.extractor.class", {"json", "csv", "avro"}),
        ("converter.classes", {"json-normalizer", "in-flow-validation"}),
        ("ms.extract.preprocessors", {"gunzip", "zip"}),
    ],
)
def test_a_property_of_classes_lists_their_short_names(name, words):
    [line] = [each for each in explain(name).splitlines() if "short names: " in each]
    assert words <= set(line.partition(": ")[2].split(", "))
    assert words <= set(explained(name)["short_names"])
    assert explained("ms.timezone")["short_names"] == ()


def test_words_find_properties_by_their_texts_names_first():
    found = [each.name for each in search("grace period")]
    assert {"ms.grace.period", "ms.grace.period.days"} <= set(found)
    assert search("Grace PERIOD") == search("grace period")
    by_text = [each.name for each in search("dead server never heard of")]
    assert by_text == []
    assert "ms.authentication" in [each.name for each in search("fetches a token")]
    named = [each.name for each in search("watermark")]
    firsts = [index for index, name in enumerate(named) if "watermark" in name]
    assert firsts == list(range(len(firsts)))


class Bills(Connector):
    properties = (
        PluginProperty("ms.x.bills.region", "Where the bills are kept.", "eu"),
        PluginProperty("ms.x.bills.pin", "The pin of the safe.", "1234", secret=True),
    )

    def open(self, context):
        raise NotImplementedError


def test_properties_of_a_jobs_own_classes_are_explained_and_found():
    found = elsewhere("ms.x.bills.region", [Bills])
    assert found is not None
    assert "default: eu" in str(found)
    assert "test_explaining:Bills" in str(found)
    assert "1234" not in str(elsewhere("ms.x.bills.pin", [Bills]))
    assert [each.name for each in search("bills kept", [Bills])] == ["ms.x.bills.region"]
    assert elsewhere("job.name", [Bills]) is None
    with pytest.raises(ConfigError, match="--job JOB"):
        elsewhere("ms.x.bills.region")
