"""A destination of the job's own, asked by way of what translates its errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dil.errors import PluginFailureError, WriteError
from dil.model.job import ClassRef, DestinationSpec, PublishingSpec
from dil.model.properties import Properties
from dil.publishing.destination import destination_for
from dil.spi.destination import Destination
from dil.storage import LocalFilesystem

MODULE = """
from dil.errors import WriteError
from dil.spi.destination import Destination

class Odd(Destination):
    def check(self): raise WriteError("the store is full", "Make room.")
    def uri(self, path): return "odd:" + path
    def carry_out(self, intent): return {}["row"]
    def has_landed(self, intent): return None

class Broken(Odd):
    def __init__(self, context): raise OSError("no such store")
"""
# Asked only where earlier versions are kept, which such a class says of itself that it does not.
OF_VERSIONS = {"refuse_deleted_rows", "unremovable", "vacuum"}
# Asked of the class, while the job is loaded.
OF_THE_CLASS = {"check_properties"}


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "odd_of_test_plugged"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def opened(folder: Path, module: str, name: str = "Odd") -> Destination:
    own = DestinationSpec(ClassRef(module, name), Properties({}))
    return destination_for(PublishingSpec(str(folder), "a/b", destination=own), LocalFilesystem())


def test_every_method_of_a_destination_reaches_the_class(tmp_path: Path, odd: str) -> None:
    methods = {
        name
        for name, value in vars(Destination).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, classmethod))
    }
    assert methods - OF_VERSIONS - OF_THE_CLASS <= vars(type(opened(tmp_path, odd))).keys()


def test_an_error_of_ours_passes(tmp_path: Path, odd: str) -> None:
    with pytest.raises(WriteError, match="the store is full"):
        opened(tmp_path, odd).check()


def test_another_error_names_the_file_and_the_line(tmp_path: Path, odd: str) -> None:
    with pytest.raises(PluginFailureError) as caught:
        opened(tmp_path, odd).carry_out(None)
    assert f"{odd}.py:8, in carry_out" in caught.value.message


def test_an_answer_of_another_type_is_no_answer(tmp_path: Path, odd: str) -> None:
    with pytest.raises(PluginFailureError, match="has_landed returned NoneType"):
        opened(tmp_path, odd).has_landed(None)


def test_a_class_that_cannot_be_made_is_named(tmp_path: Path, odd: str) -> None:
    with pytest.raises(PluginFailureError, match="Broken"):
        opened(tmp_path, odd, "Broken")
