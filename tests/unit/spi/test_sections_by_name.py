"""Plug-ins find the sections of a job in ``dil.spi``, whose contracts import none of them."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import dil.sections
import dil.spi
from dil.model.section import Section


def sections_of_rooms() -> dict[str, type[Section]]:
    modules = [
        importlib.import_module(f"dil.sections.{each.name}")
        for each in pkgutil.iter_modules(dil.sections.__path__)
    ]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Section) and value is not Section
    }


def test_each_section_is_found_in_dil_spi_by_its_name() -> None:
    assert {name: getattr(dil.spi, name) for name in dil.spi.SECTIONS} == sections_of_rooms()


def test_another_name_is_no_section() -> None:
    with pytest.raises(ImportError):
        from dil.spi import NoSuchSection  # noqa: F401


def test_a_contract_is_imported_without_any_section() -> None:
    script = (
        "import sys, dil.spi.connector, dil.spi.extractor, dil.spi.registry, dil.spi.state_store;"
        "print([name for name in sys.modules if name.startswith('dil.sections')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
