import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-docs.txt")
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / name).read_text(encoding="utf-8")))


def names(requirements: list[str]) -> set[str]:
    heads = (re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in requirements)
    return {re.sub(r"[-_.]+", "-", head).lower() for head in heads}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_no_local_path(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"://|--(extra-)?index-url|--find-links|\s@\s|^[./]", text, re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_carries_a_hash(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    for requirement in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in requirement, requirement.splitlines()[0]


def test_every_declared_dependency_is_locked_but_what_each_machine_builds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = dict(project["project"]["optional-dependencies"])
    assert extras.pop("kerberos"), "it is built against headers that not every machine has"
    runtime = names(project["project"]["dependencies"]).union(*map(names, extras.values()))
    groups = project["dependency-groups"]

    assert runtime - pins("requirements.txt").keys() == set()
    assert (runtime | names(groups["dev"])) - pins("requirements-dev.txt").keys() == set()
    assert names(groups["docs"]) - pins("requirements-docs.txt").keys() == set()


def test_the_locks_agree_on_versions() -> None:
    everything = pins("requirements-dev.txt")
    assert pins("requirements.txt").items() <= everything.items()
