"""Loading job files from text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dil.config import Loaded, load
from dil.errors import ConfigError, Problem

SMALLEST = {
    "job.name": "orders",
    "source.class": "http",
    "ms.extractor.class": "json",
    "ms.source.uri": "https://shop.test/orders",
    "extract.table.name": "orders",
    "data.publisher.final.dir": "out",
    "ms.timezone": "UTC",
}


class JobFile:
    """A job file in a folder of its own; ``load`` reads the smallest job plus what is given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(
        self,
        properties: Mapping[str, str | None] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        lenient: bool = False,
    ) -> Loaded:
        merged = {**SMALLEST, **(properties or {})}
        text = "".join(
            f"{key}={_escaped(value)}\n" for key, value in merged.items() if value is not None
        )
        path = self.folder / "job.conf"
        path.write_text(text)
        return load(path, environ=environ or {}, overrides=overrides, lenient=lenient)

    def problems(self, properties: Mapping[str, str | None], **options: object) -> list[Problem]:
        with pytest.raises(ConfigError) as caught:
            self.load(properties, **options)  # type: ignore[arg-type]
        found = list(caught.value.problems)
        assert [problem for problem in found if not problem.fix] == [], "each says what to do"
        return found

    def problem(self, key: str, value: str, **options: object) -> Problem:
        """Return the only problem of a job with one more property."""
        (found,) = self.problems({key: value}, **options)
        assert found.key == key
        return found

    def notices(self, properties: Mapping[str, str | None], **options: object) -> list[str]:
        return [notice.key for notice in self.load(properties, **options).notices]  # type: ignore[arg-type]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


@pytest.fixture(autouse=True)
def own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the import path back: loading a job appends the job file's folder."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def job_file(tmp_path: Path) -> JobFile:
    folder = tmp_path / "jobs"
    folder.mkdir()
    return JobFile(folder)


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[..., Loaded]:
    """Return a function that loads one file of the given name and text."""

    def loader(name: str, text: str, **environ: str) -> Loaded:
        path = tmp_path / name
        path.write_text(text)
        return load(path, environ=environ)

    return loader
