"""``ms.writer.class`` and ``ms.destination.class``: what goes with them, and what tasks get."""

from __future__ import annotations

import pickle
import sys

import pytest

from dil.errors import ConfigError
from dil.model.job import ClassRef, OutputFormat
from dil.model.secret import Secret
from dil.sections.source import SourceSection

MODULE = """
from dil.model.job import PublishMode
from dil.model.section import Section, SecretText, prop
from dataclasses import dataclass
from dil.spi.connector import PluginProperty
from dil.spi.destination import Destination
from dil.spi.writer import FileWriter

@dataclass(frozen=True, slots=True)
class ShelfSection(Section):
    key: SecretText | None = prop("ms.x.shelf.key", "Key of the shelf.", default=None)

class Shelf(Destination):
    modes = frozenset({PublishMode.APPEND, PublishMode.MERGE})
    sections = (ShelfSection,)
    properties = (PluginProperty("ms.x.shelf.pin", "Its pin.", secret=True),)

    def uri(self, path): return "shelf:" + path
    def has_landed(self, intent): return False
    def carry_out(self, intent): pass

class Lines(FileWriter):
    extension = "lines"
    properties = (PluginProperty("ms.x.lines.end", "What ends a line.", default="x"),)

    def write(self, batch): pass
    def close(self): pass

class Csv(Lines):
    extension = "csv"

class Upper(Lines):
    extension = "A.B"
"""


@pytest.fixture
def shelf(job_file, monkeypatch):
    name = "shelf_of_test_own_classes"
    monkeypatch.delitem(sys.modules, name, raising=False)
    (job_file.folder / f"{name}.py").write_text(MODULE)
    return name


def problems(job_file, properties):
    with pytest.raises(ConfigError) as caught:
        job_file.load(properties)
    return {each.key: f"{each.what}. {each.fix}" for each in caught.value.problems}


def test_a_destination_sees_its_own_properties_alone(job_file, shelf):
    given = {
        "ms.destination.class": f"{shelf}.Shelf",
        "ms.publish.mode": "append",
        "ms.x.shelf.key": "k3y",
        "ms.x.shelf.pin": "p1n-of-the-shelf",
        "source.conn.password": "s3cret",
    }
    job = job_file.load(given).job
    own = job.publishing.destination
    assert own.ref == ClassRef(shelf, "Shelf")
    assert own.properties["ms.x.shelf.key"] == Secret("k3y")
    assert own.properties["ms.x.shelf.pin"] == Secret("p1n-of-the-shelf")
    assert own.properties.section(SourceSection).password != Secret("s3cret")
    assert job.writing.format is OutputFormat.PARQUET
    assert not job.publishing.keeps_files
    assert job.publishing.place_key == "ms.destination.class"


def test_tasks_get_no_secret_of_a_destination(job_file, shelf):
    given = {
        "ms.destination.class": f"{shelf}.Shelf",
        "ms.publish.mode": "append",
        "ms.x.shelf.key": "k3y",
        "ms.x.shelf.pin": "p1n-of-the-shelf",
        "source.conn.password": "s3cret",
    }
    sent = pickle.dumps(job_file.load(given).job.for_tasks())
    assert b"k3y" not in sent
    assert b"p1n-of-the-shelf" not in sent
    assert b"s3cret" in sent


def test_a_writer_has_its_properties_in_tasks(job_file, shelf):
    given = {"ms.writer.class": f"{shelf}.Lines", "ms.x.lines.end": "y"}
    job = pickle.loads(pickle.dumps(job_file.load(given).job.for_tasks()))
    assert job.writing.own.ref == ClassRef(shelf, "Lines")
    assert dict(job.writing.own.properties) == {"ms.x.lines.end": "y"}
    assert job.publishing.keeps_files


def test_another_class_than_before_is_another_configuration(job_file, shelf):
    first = job_file.load({"ms.writer.class": f"{shelf}.Lines"}).job.digest
    assert job_file.load({}).job.digest != first


@pytest.mark.parametrize(
    ("more", "key", "words"),
    [
        ({"ms.writer.class": "{}.Shelf"}, "ms.writer.class", "dil.spi.writer.FileWriter"),
        ({"ms.writer.class": "{}.Csv"}, "ms.writer.class", "built-in format"),
        ({"ms.writer.class": "{}.Upper"}, "ms.writer.class", "small letters"),
        ({"ms.writer.class": "parquet"}, "ms.writer.class", "writer.output.format=PARQUET"),
        (
            {"ms.writer.class": "{}.Lines", "writer.output.format": "CSV"},
            "writer.output.format",
            "Leave one",
        ),
        (
            {"ms.writer.class": "{}.Lines", "ms.table.format": "delta"},
            "ms.table.format",
            "Parquet",
        ),
        (
            {
                "ms.writer.class": "{}.Lines",
                "ms.publish.mode": "merge",
                "extract.primary.key.fields": "id",
            },
            "ms.publish.mode",
            "read back",
        ),
        (
            {"ms.writer.class": "{}.Lines", "ms.output.file.per.work.unit": "false"},
            "ms.output.file.per.work.unit",
            "read back",
        ),
        ({"ms.writer.class": "{}.Lines", "ms.catalog.type": "hive"}, "ms.catalog.type", "Parquet"),
        (
            {
                "ms.destination.class": "{}.Shelf",
                "ms.publish.mode": "merge",
                "extract.primary.key.fields": "id",
                "ms.merge.delete.missing": "true",
            },
            "ms.merge.delete.missing",
            "Leave it out",
        ),
        (
            {"ms.destination.class": "{}.Shelf", "ms.publish.mode": "replace"},
            "ms.publish.mode",
            "append, merge",
        ),
        (
            {"ms.destination.class": "{}.Shelf", "ms.warehouse.url": "sqlite:///w.db"},
            "ms.warehouse.url",
            "Rows go to one place",
        ),
        (
            {
                "ms.destination.class": "{}.Shelf",
                "ms.publish.mode": "append",
                "ms.output.file.per.work.unit": "false",
            },
            "ms.output.file.per.work.unit",
            "to a destination of the job's own",
        ),
        (
            {
                "ms.destination.class": "{}.Shelf",
                "ms.extractor.class": "filedump",
                "ms.extractor.target.file.name": "x",
            },
            "ms.destination.class",
            "this job dumps files as they are",
        ),
        (
            {
                "ms.writer.class": "{}.Lines",
                "ms.extractor.class": "filedump",
                "ms.extractor.target.file.name": "x",
            },
            "ms.writer.class",
            "this job dumps files as they are",
        ),
        ({"ms.destination.class": "Delta"}, "ms.destination.class", "Set ms.table.format=delta"),
        ({"ms.destination.class": "mysql"}, "ms.destination.class", "Set ms.warehouse.url"),
    ],
)
def test_what_does_not_go_together_is_refused(job_file, shelf, more, key, words):
    given = {name: text.replace("{}", shelf) for name, text in more.items()}
    assert words in problems(job_file, given)[key]
