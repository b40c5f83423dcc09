"""``ms.secret.resolvers``: secrets that a class of a package or beside the job resolves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.secret import Secret
from dil.sections.source import SourceSection

JOB = """
job.name=orders
extract.table.name=orders
ms.timezone=UTC
source.class=http
ms.source.uri=https://api.example.com/v1/orders
ms.extractor.class=json
data.publisher.final.dir=lake
"""
SHELF = """
from dil.spi.secret_resolver import ReferenceResolver, UnresolvedReferenceError

asked = []

class Shelf(ReferenceResolver):
    def check(self, reference):
        if "#" not in reference:
            raise UnresolvedReferenceError("has no #", "Write NAME#FIELD.")

    def resolve(self, reference):
        asked.append(reference)
        name = reference.partition("#")[0]
        if name == "broken":
            raise RuntimeError("the token is t0p")
        if name == "number":
            return 7
        if name not in self.context.environ:
            raise UnresolvedReferenceError(f"names {reference}, which is not there", "Add it.")
        return self.context.environ[name]

class Locked(ReferenceResolver):
    def __init__(self, context):
        raise ValueError("the token is t0p")

    def resolve(self, reference):
        return ""
"""
METADATA = """[dil.secret_resolvers]
shelf = shelf:Shelf
"""


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before
    sys.modules.pop("shelf", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shelf.py").write_text(SHELF, encoding="utf-8")
    return tmp_path


def load(folder: Path, *lines: str, secrets: bool = True) -> Job:
    path = folder / "job.conf"
    path.write_text("\n".join([JOB, *lines]), encoding="utf-8")
    environ = {"orders": "s3cret", "key": "k3y"}
    return config.load(str(path), environ=environ, secrets=secrets).job


def problem(folder: Path, *lines: str, secrets: bool = True) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, *lines, secrets=secrets)
    [found] = caught.value.problems
    return f"{found.key}: {found.what}. {found.fix}"


def password(job: Job) -> Secret:
    return job.properties.section(SourceSection).password


OWN = "ms.secret.resolvers=vault=shelf.Shelf"


def test_a_class_beside_the_job_resolves_its_prefix(folder: Path) -> None:
    job = load(folder, OWN, "source.conn.password=vault:orders#password")
    assert password(job).reveal() == "s3cret"


def test_an_installed_package_offers_a_class_by_name(tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "shelf-1.0.dist-info").mkdir(parents=True)
    (package / "shelf-1.0.dist-info" / "METADATA").write_text("Name: shelf\nVersion: 1.0\n")
    (package / "shelf-1.0.dist-info" / "entry_points.txt").write_text(METADATA)
    (package / "shelf.py").write_text(SHELF, encoding="utf-8")
    sys.path.append(str(package))
    job = load(tmp_path, "ms.secret.resolvers=shelf", "source.conn.password=shelf:orders#password")
    assert password(job).reveal() == "s3cret"


def test_headers_and_parameters_take_references_too(folder: Path) -> None:
    job = load(
        folder,
        OWN,
        'ms.http.request.headers={"X-Caller": "vault:key#value"}',
        'ms.parameters=[{"name": "k", "value": "vault:key#value"}]',
    )
    assert "k3y" not in repr(job)
    from connectors.http.section import HttpSection
    from dil.sections.parameters import ParametersSection

    header = job.properties.section(HttpSection).headers["X-Caller"]
    [parameter] = job.properties.section(ParametersSection).parameters
    assert header == parameter.value == Secret("k3y")


def test_a_reference_is_asked_for_once(folder: Path) -> None:
    load(
        folder,
        OWN,
        "source.conn.username=vault:orders#password",
        "source.conn.password=vault:orders#password",
    )
    assert sys.modules["shelf"].asked == ["orders#password"]


def test_without_the_property_the_text_is_plain(folder: Path) -> None:
    job = load(folder, "source.conn.password=vault:orders#password")
    assert password(job).reveal() == "vault:orders#password"


def test_what_needs_no_secret_asks_no_resolver(folder: Path) -> None:
    job = load(folder, OWN, "source.conn.password=vault:gone#password", secrets=False)
    assert password(job).reveal() == ""
    assert sys.modules["shelf"].asked == []


def test_a_form_that_leads_nowhere_is_noted_without_asking(folder: Path) -> None:
    path = folder / "job.conf"
    path.write_text(f"{JOB}\n{OWN}\nsource.conn.password=vault:orders", encoding="utf-8")
    loaded = config.load(str(path), environ={}, secrets=False)
    assert [each.what for each in loaded.notices if each.key == "source.conn.password"] == [
        "has no #; a run would refuse it"
    ]


def test_a_secret_that_is_not_there_is_a_problem_of_its_property(folder: Path) -> None:
    said = problem(folder, OWN, "source.conn.password=vault:gone#password")
    assert said == "source.conn.password: names gone#password, which is not there. Add it."


@pytest.mark.parametrize("name", ["broken", "number"])
def test_a_broken_resolver_is_told_without_what_it_knows(folder: Path, name: str) -> None:
    said = problem(folder, OWN, f"source.conn.password=vault:{name}#password")
    assert said.startswith("source.conn.password: is a reference for vault, wh")
    assert "Mend the resolver" in said
    assert "t0p" not in said


@pytest.mark.parametrize(
    "entry",
    [
        "missing",
        "env=shelf.Shelf",
        "Vault=shelf.Shelf",
        "a=shelf.Nothing",
        "a=shelf.Locked",
        "a=pathlib.Path",
        "a=shelf.Shelf,a=shelf.Shelf",
    ],
)
def test_a_resolver_that_cannot_be_had_is_a_problem(folder: Path, entry: str) -> None:
    said = problem(folder, f"ms.secret.resolvers={entry}", secrets=False)
    assert said.startswith("ms.secret.resolvers: ")
    assert "t0p" not in said


def test_a_broken_resolver_is_named_by_its_line(folder: Path) -> None:
    line = SHELF.splitlines().index('            raise RuntimeError("the token is t0p")') + 1
    said = problem(folder, OWN, "source.conn.password=vault:broken#password")
    assert f"{folder / 'shelf.py'}, line {line}, raised it" in said


def test_a_folder_that_everybody_may_write_to_gives_no_classes(folder: Path) -> None:
    folder.chmod(0o777)
    said = problem(folder, OWN)
    assert "would import classes from" in said
    assert "shelf" not in sys.modules
