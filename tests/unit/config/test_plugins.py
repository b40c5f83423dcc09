"""Classes named in a job: registry, import path, their own properties (rule F13)."""

from __future__ import annotations

import sys

import pytest

from dil.errors import PluginError
from dil.model.job import ClassRef
from dil.spi.connector import Connector
from dil.spi.registry import BUILT_IN, PluginKind, load, names, resolve

MODULE = """
from collections.abc import Iterable
from dil.errors import Problem
from dil.spi.connector import Connector, PluginProperty

class Shop(Connector):
    properties = (
        PluginProperty("ms.x.shop.id", "Number of the shop.", required=True, parse=int),
        PluginProperty("ms.x.shop.key", "Its key.", secret=True),
        PluginProperty("ms.x.shop.size", "Page size.", default=10, parse=int),
    )

    @classmethod
    def check(cls, properties):
        if properties.get("ms.x.shop.id") == 13:
            yield Problem(None, "ms.x.shop.id", "is 13", "Take another.")

    def open(self, context):
        raise NotImplementedError

class NoConnector:
    pass
"""


UNPREFIXED = """
from dataclasses import dataclass
from dil.model.section import Section as Base, Text, prop
from dil.spi.connector import Connector, PluginProperty

@dataclass(frozen=True, slots=True)
class Pages(Base):
    size: Text = prop("shop.size", "Page size.", default="10")

class Section(Connector):
    sections = (Pages,)

    def open(self, context):
        raise NotImplementedError

class Single(Section):
    sections = ()
    properties = (PluginProperty("shop.size", "Page size."),)
"""

PREPROCESSOR = """
from dil.spi.preprocessor import Preprocessor

class Shift(Preprocessor):
    parameters = {"by": "Steps to shift."}

    @classmethod
    def check(cls, parameters):
        if "by" not in parameters:
            yield "by is missing"

    def process(self, stream):
        return stream
"""


@pytest.fixture
def shop(job_file, monkeypatch):
    """A module of the user's beside the job file."""
    name = "shop_of_test_plugins"
    monkeypatch.delitem(sys.modules, name, raising=False)
    (job_file.folder / f"{name}.py").write_text(MODULE)
    return name


@pytest.mark.parametrize("text", ["http", "HttpSource", "com.linkedin.cdi.source.HttpSource"])
def test_built_in_classes_have_short_simple_and_java_names(job_file, text):
    source = job_file.load({"source.class": text}).job.source
    assert str(source.connector) == "connectors.http:HttpConnector"


@pytest.mark.parametrize("text", ["JdbcSource", "com.linkedin.cdi.source.JdbcSource", "jdbc"])
def test_a_database_has_all_its_names(job_file, text):
    given = {
        "source.class": text,
        "ms.source.uri": "jdbc:sqlite:a.db",
        "ms.jdbc.statement": "select 1",
    }
    assert str(job_file.load(given).job.source.connector) == "connectors.jdbc:JdbcConnector"


@pytest.mark.parametrize("separator", [":", "."])
def test_a_class_beside_the_job_file_is_found_by_either_form(job_file, shop, separator):
    properties = {
        "source.class": f"{shop}{separator}Shop",
        "ms.source.uri": "shop:1",
        "ms.x.shop.id": "7",
        "ms.x.shop.key": "env:KEY",
    }
    job = job_file.load(properties, environ={"KEY": "k"}).job
    assert job.source.connector == ClassRef(shop, "Shop")
    assert job.properties["ms.x.shop.id"] == 7
    assert job.properties.secret("ms.x.shop.key").reveal() == "k"
    assert job.properties["ms.x.shop.size"] == 10
    assert sys.path[-1] == str(job_file.folder)


def test_a_class_in_the_plugin_path_is_found(job_file, shop):
    folder = job_file.folder / "plugins"
    folder.mkdir()
    (folder / "more_of_test_plugins.py").write_text(MODULE)
    job = job_file.load(
        {"source.class": "more_of_test_plugins:Shop", "ms.plugin.path": "plugins",
         "ms.x.shop.id": "1"}
    ).job  # fmt: skip
    assert job.running.plugin_path == (str(job_file.folder), str(folder))


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "ms.x.shop.id"),
        ({"ms.x.shop.id": "x"}, "ms.x.shop.id"),
        ({"ms.x.shop.id": "13"}, "ms.x.shop.id"),
        ({"ms.x.shop.id": "1", "ms.x.shop.idd": "1"}, "ms.x.shop.idd"),
        ({"ms.x.shop.id": "1", "ms.x.shop.key": "env:NONE"}, "ms.x.shop.key"),
    ],
)
def test_the_properties_of_a_class_are_checked_like_our_own(job_file, shop, properties, key):
    found = job_file.problems({"source.class": f"{shop}:Shop", **properties})
    assert [problem.key for problem in found] == [key]


@pytest.mark.parametrize("declared", ["Section", "Single"])
def test_a_name_under_which_no_job_can_set_a_property_is_refused(job_file, monkeypatch, declared):
    name = "unprefixed_of_test_plugins"
    monkeypatch.delitem(sys.modules, name, raising=False)
    (job_file.folder / f"{name}.py").write_text(UNPREFIXED)
    (found,) = job_file.problems({"source.class": f"{name}:{declared}"})
    assert (found.key, "ms.x." in found.fix) == ("shop.size", True)


def test_a_preprocessor_of_the_users_checks_its_parameters(job_file, monkeypatch):
    name = "preprocessor_of_test_plugins"
    monkeypatch.delitem(sys.modules, name, raising=False)
    (job_file.folder / f"{name}.py").write_text(PREPROCESSOR)
    given = {"ms.extract.preprocessors": f"{name}:Shift"}
    (found,) = job_file.problems(given)
    assert found.key == "ms.extract.preprocessor.parameters"
    assert (found.what, found.fix) == (f'"{name}:Shift": by is missing', "by: Steps to shift.")
    parameters = {"ms.extract.preprocessor.parameters": f'{{"{name}:Shift": {{"by": 3}}}}'}
    (spec,) = job_file.load({**given, **parameters}).job.extraction.preprocessors
    assert (spec.filter, spec.parameters) == (ClassRef(name, "Shift"), {"by": "3"})


def test_properties_of_no_class_are_unknown(job_file):
    job_file.problem("ms.x.anything", "1")


def test_a_class_of_the_wrong_kind_is_told(job_file, shop):
    found = job_file.problem("source.class", f"{shop}:NoConnector")
    assert "dil.spi.connector.Connector" in found.fix


def test_a_class_that_its_module_does_not_have_is_told_with_the_nearest(job_file, shop):
    assert 'Did you mean "Shop"?' in job_file.problem("source.class", f"{shop}:Shp").fix


def test_a_missing_module_and_one_that_fails_inside_are_told_apart(job_file, shop, monkeypatch):
    (job_file.folder / "broken_of_test_plugins.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(job_file.folder))
    with pytest.raises(PluginError, match=r"its own import failed") as caught:
        resolve(PluginKind.CONNECTOR, "broken_of_test_plugins:X", Connector)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(PluginError, match=r"no module named 'connectors\.htp'") as caught:
        resolve(PluginKind.CONNECTOR, "connectors.htp:HttpConnector", Connector)
    assert 'Did you mean "http"?' in caught.value.problems[0].fix


@pytest.mark.parametrize("text", ["htpp", "com.linkedin.cdi.source.NopeSource", ":", "a:"])
def test_names_of_nothing_are_refused(text):
    with pytest.raises(PluginError):
        resolve(PluginKind.CONNECTOR, text, Connector)


def test_built_in_names_are_known_without_package_metadata():
    for kind, table in BUILT_IN.items():
        assert set(table) <= set(names(kind))


def test_a_reference_loads_its_class():
    assert load(ClassRef("dil.spi.connector", "Connector")) is Connector


def test_format_converters_are_accepted_and_dropped(job_file):
    formats = (
        "org.apache.gobblin.converter.csv.CsvToJsonConverterV2,JsonIntermediateToAvroConverter"
    )
    assert job_file.load({"converter.classes": formats}).job.conversion.converters == ()


SECTION_MODULE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated, Literal
from annotated_types import Ge, Le
from dil.model.section import ONE_OF, Duration, Long, Section, SecretText, Text, prop
from dil.spi.connector import Connector

@dataclass(frozen=True, slots=True)
class Cursor(Section):
    size: Annotated[Long, Ge(1), Le(100)] = prop("ms.x.shop.size", "Page size.", default=10)
    overlap_ms: Duration = prop("ms.x.shop.overlap", "Overlap.", default=60000, shown="PT1M")
    key: SecretText | None = prop("ms.x.shop.key", "Its key.", default=None)
    order: Annotated[Literal["up", "down"], ONE_OF] = prop(
        "ms.x.shop.order", "Order.", default="up", required=True
    )
    path: Text = prop("ms.x.shop.path", "Path.", default="", variables=True)

    def templates(self):
        yield "ms.x.shop.path", self.path

class Shop(Connector):
    sections = (Cursor,)

    def open(self, context):
        raise NotImplementedError
"""


@pytest.fixture
def shop_with_section(job_file, monkeypatch):
    name = "shop_with_section_of_test_plugins"
    monkeypatch.delitem(sys.modules, name, raising=False)
    (job_file.folder / f"{name}.py").write_text(SECTION_MODULE)
    return name


def test_a_class_of_the_users_declares_its_properties_as_a_section(job_file, shop_with_section):
    job = job_file.load(
        {"source.class": f"{shop_with_section}:Shop", "ms.x.shop.size": "20",
         "ms.x.shop.order": "DOWN", "ms.x.shop.key": "env:KEY"},
        environ={"KEY": "k"},
    ).job  # fmt: skip
    cursor = job.properties.section(sys.modules[shop_with_section].Cursor)
    assert (cursor.size, cursor.overlap_ms, cursor.order) == (20, 60_000, "down")
    assert cursor.key.reveal() == "k"
    assert job.properties["ms.x.shop.size"] == 20


def test_variables_in_a_section_of_the_users_need_a_value(job_file, shop_with_section):
    given = {
        "source.class": f"{shop_with_section}:Shop",
        "ms.x.shop.order": "up",
        "ms.parameters": '[{"name":"kind","value":"order"}]',
    }
    assert "ms.x.shop.path" not in job_file.notices({**given, "ms.x.shop.path": "{{kind}}"})
    assert "ms.x.shop.path" in job_file.notices({**given, "ms.x.shop.path": "{{kinds}}"})


def test_all_that_is_wrong_with_a_section_of_the_users_is_a_problem(job_file, shop_with_section):
    found = job_file.problems(
        {"source.class": f"{shop_with_section}:Shop", "ms.x.shop.size": "200",
         "ms.x.shop.overlap": "long", "ms.x.shop.sise": "1"}
    )  # fmt: skip
    assert {(each.key, each.what) for each in found} == {
        ("ms.x.shop.size", 'is "200", which is out of bounds'),
        ("ms.x.shop.overlap", 'is "long", which is not an ISO duration'),
        ("ms.x.shop.order", "is required and not set"),
        ("ms.x.shop.sise", "is no known property"),
    }


@pytest.mark.parametrize("connector", ["jdbc", "com.linkedin.cdi.source.JdbcSource"])
def test_a_database_needs_no_extractor(job_file, connector):
    job = {
        "source.class": connector,
        "ms.source.uri": "jdbc:sqlite:/shop.db",
        "ms.jdbc.statement": "select * from orders",
    }
    named = job_file.load(job).job
    unnamed = job_file.load({**job, "ms.extractor.class": None}).job
    assert unnamed.extraction == named.extraction


def test_bytes_need_an_extractor(job_file):
    (problem,) = job_file.problems({"ms.extractor.class": None})
    assert (problem.key, problem.what) == ("ms.extractor.class", "is required and not set")
