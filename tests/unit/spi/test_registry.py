"""Built-in names work without package metadata; entry points tell others of the same ones."""

import tomllib
from pathlib import Path

import pytest

from dil.errors import PluginError
from dil.model.job import ClassRef
from dil.spi.connector import Connector
from dil.spi.converter import Converter
from dil.spi.destination import Destination
from dil.spi.extractor import Extractor
from dil.spi.preprocessor import Preprocessor
from dil.spi.registry import BUILT_IN, JAVA_NAMES, PluginKind, is_built_in, load, resolve
from dil.spi.secret_resolver import ReferenceResolver
from dil.spi.writer import FileWriter

BASES = {
    PluginKind.CONNECTOR: Connector,
    PluginKind.EXTRACTOR: Extractor,
    PluginKind.CONVERTER: Converter,
    PluginKind.PREPROCESSOR: Preprocessor,
    PluginKind.RESOLVER: ReferenceResolver,
    PluginKind.DESTINATION: Destination,
    PluginKind.WRITER: FileWriter,
}
PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_the_table_of_built_in_names_and_the_entry_points_agree() -> None:
    declared = tomllib.loads(PYPROJECT.read_text())["project"].get("entry-points", {})
    ours = {kind.group: table for kind, table in BUILT_IN.items() if table}
    assert declared == ours


def test_every_kind_has_its_names_and_its_base_class() -> None:
    assert set(BUILT_IN) == set(JAVA_NAMES) == set(BASES) == set(PluginKind)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, table in BUILT_IN.items() for name in table]
)
def test_every_built_in_name_is_a_class_of_its_kind(kind: PluginKind, name: str) -> None:
    ref = resolve(kind, name, BASES[kind])
    assert is_built_in(ref)
    assert issubclass(load(ref), BASES[kind])


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, table in JAVA_NAMES.items() for name in table]
)
def test_every_java_name_stands_for_a_built_in_one(kind: PluginKind, name: str) -> None:
    short = JAVA_NAMES[kind][name]
    assert short in BUILT_IN[kind]
    for text in (name, f"com.linkedin.cdi.any.{name}", f"org.apache.gobblin.any.{name}"):
        assert resolve(kind, text, BASES[kind]) == resolve(kind, short, BASES[kind])


def test_a_java_class_of_dil_that_will_never_come_says_so() -> None:
    with pytest.raises(PluginError) as caught:
        resolve(PluginKind.CONNECTOR, "com.linkedin.cdi.source.Nonsense", Connector)
    assert caught.value.problems[0].what.endswith("has no counterpart here")


def test_no_installed_package_takes_the_place_of_a_python_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{PluginKind.CONNECTOR.group}]\n"
        "connectors.jdbc:JdbcConnector = connectors.http:HttpConnector\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    found = resolve(PluginKind.CONNECTOR, "connectors.jdbc:JdbcConnector", Connector)

    assert found == ClassRef("connectors.jdbc", "JdbcConnector")
