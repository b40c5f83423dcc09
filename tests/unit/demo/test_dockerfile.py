"""The Dockerfile fits the project: no builder runs here, so it is read and its wheel is built."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions and what follows them, lines put together, comments left out."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = text.replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def values(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def sources() -> list[str]:
    """Return what is copied from the checkout."""
    copies = [shlex.split(rest) for rest in values("COPY") if not rest.startswith("--from=")]
    return [source for *found, _target in copies for source in found]


def installed() -> set[str]:
    """Return the packages of Debian that any stage installs."""
    commands = [part.split() for rest in values("RUN") for part in rest.split("&&")]
    return {
        word
        for words in commands
        if words[:2] == ["apt-get", "install"]
        for word in words[2:]
        if not word.startswith("--")
    }


def test_it_has_only_instructions_that_are_known_and_two_stages_of_one_image() -> None:
    known = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in instructions()} <= known
    assert values("FROM") == ["${IMAGE} AS build", "${IMAGE}"]
    assert "IMAGE=debian:bookworm-slim" in values("ARG")


def test_what_it_copies_exists_and_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    for source in sources():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source
    stages = re.findall(r" AS (\S+)", "\n".join(values("FROM")))
    for rest in values("COPY"):
        if rest.startswith("--from="):
            assert rest.partition("=")[2].split()[0] in stages


def test_python_and_java_are_those_of_the_lock_and_of_the_demo() -> None:
    locked = re.search(r"--python-version (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    java = re.search(
        r"^package=(\S+)$", (ROOT / "scripts/ensure-java").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert locked
    assert java
    assert {f"python{locked[1]}", f"python{locked[1]}-venv", java[1]} <= installed()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={locked[1]}"


def test_packages_come_by_the_lock_and_nothing_from_elsewhere() -> None:
    runs = "\n".join(values("RUN"))
    (requirements,) = re.findall(r"pip install [^&\n]*--require-hashes[^&\n]*", runs)
    assert requirements.split()[-2:] == ["--requirement", "requirements.txt"]
    assert not re.search(r"curl|wget|git |https?:|--(extra-)?index-url|--trusted-host", runs)


def test_a_user_that_is_not_root_runs_dil() -> None:
    words = [word for word, _ in instructions()]
    assert values("USER") == ["dil"]
    assert words.index("USER") > max(n for n, word in enumerate(words) if word == "RUN")
    assert any("useradd" in rest and rest.split()[-3:] == ["chown", "dil", "/work"]
               for rest in values("RUN"))  # fmt: skip
    assert values("ENTRYPOINT") == ['["tini", "--", "dil"]']
    assert "tini" in installed()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a folder with what the Dockerfile copies, and nothing else."""
    folder = tmp_path / "src"
    folder.mkdir()
    for source in map(ROOT.joinpath, sources()):
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / source.name, ignore=ignore)
        else:
            shutil.copy(source, folder)
    return folder


@pytest.mark.slow
def test_the_wheel_is_built_of_what_is_copied_and_is_whole(copied: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", "from hatchling.build import build_wheel; build_wheel('dist')"],
        cwd=copied,
        env={**os.environ, "PYTHONPATH": ""},
        check=True,
        capture_output=True,
    )
    (wheel,) = (copied / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {
        str(path.relative_to(ROOT))
        for package in ("dil", "connectors")
        for path in (ROOT / package).rglob("*.py")
    }
    # What Spark looks for lies beside the packages.
    modules.remove("dil/spark/pyspark_dil.py")
    modules.add("pyspark_dil.py")
    assert modules <= packed
