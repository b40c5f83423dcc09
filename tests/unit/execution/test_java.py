"""Which Java a local session runs on, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.errors import ExecutionError
from dil.execution import java
from dil.execution.java import Java, find_java


@pytest.fixture(autouse=True)
def _no_usual_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "_PLACES", (f"{tmp_path}/usual/*",))


def installed(home: Path, version: str, *, release: bool = True, exits: int = 0) -> Path:
    """Install a Java that prints its version as every Java does, on standard error."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\nexit {exits}\n"
    )
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nOS="Linux"\n')
    return home


def environ(home: Path | None = None, *path: Path) -> dict[str, str]:
    found = {"PATH": ":".join(str(one / "bin") for one in path)}
    return {**found, "JAVA_HOME": str(home)} if home else found


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = installed(tmp_path / "home", "21.0.2")
    other = installed(tmp_path / "path", "17.0.9")

    assert find_java(environ(home, other)) == Java(str(home), "21.0.2")


@pytest.mark.parametrize("release", [True, False])
def test_the_version_is_read_from_the_release_file_or_asked_for(
    tmp_path: Path, release: bool
) -> None:
    home = installed(tmp_path / "home", "17.0.15", release=release)

    assert find_java(environ(home)).major == 17


def test_the_release_file_spares_starting_the_program(tmp_path: Path) -> None:
    home = installed(tmp_path / "home", "17.0.9")
    (home / "bin" / "java").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")

    assert find_java(environ(home)).version == "17.0.9"
    assert not (tmp_path / "started").exists()


def test_the_java_of_the_path_is_found_through_its_links(tmp_path: Path) -> None:
    home = installed(tmp_path / "jvm" / "openjdk-17", "17.0.9")
    (tmp_path / "links" / "bin").mkdir(parents=True)
    (tmp_path / "links" / "bin" / "java").symlink_to(home / "bin" / "java")

    assert find_java(environ(None, tmp_path / "links")) == Java(str(home), "17.0.9")


def test_an_old_java_home_does_not_hide_a_good_java(tmp_path: Path) -> None:
    old = installed(tmp_path / "home", "11.0.22")
    good = installed(tmp_path / "path", "17.0.9")

    assert find_java(environ(old, good)) == Java(str(good), "17.0.9")


def test_the_usual_places_are_looked_at_last(tmp_path: Path) -> None:
    usual = installed(tmp_path / "usual" / "java-17", "17.0.9")

    assert find_java(environ()) == Java(str(usual), "17.0.9")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2"])
def test_a_java_that_is_too_old_is_named(tmp_path: Path, version: str) -> None:
    home = installed(tmp_path / "home", version)

    with pytest.raises(ExecutionError) as caught:
        find_java(environ(home))

    assert caught.value.code == "DIL-EXEC"
    assert version in caught.value.message
    assert str(home) in caught.value.message


def test_no_java_at_all_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ExecutionError) as caught:
        find_java(environ(tmp_path / "nothing"))

    assert "openjdk-17-jre-headless" in caught.value.fix
    assert "JAVA_HOME" in caught.value.fix


def test_an_empty_environment_is_no_trouble() -> None:
    with pytest.raises(ExecutionError):
        find_java({"PATH": ""})


@pytest.mark.parametrize("answer", ["", "garbage", 'openjdk version "ea"'])
def test_a_program_that_is_no_java_is_passed_over(tmp_path: Path, answer: str) -> None:
    home = installed(tmp_path / "home", "17.0.9", release=False)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit 1\n")
    good = installed(tmp_path / "path", "21.0.2")

    assert find_java(environ(home, good)).home == str(good)


@pytest.mark.parametrize(
    ("version", "major"), [("17", 17), ("17.0.15", 17), ("21-ea", 21), ("25.0.1+8", 25)]
)
def test_the_feature_release_is_the_first_number(version: str, major: int) -> None:
    assert Java("/j", version).major == major


def test_a_java_that_cannot_be_started_is_passed_over(tmp_path: Path) -> None:
    home = installed(tmp_path / "home", "17.0.9", release=False)
    (home / "bin" / "java").write_bytes(b"\x7fELF of another machine")
    good = installed(tmp_path / "path", "21.0.2")

    assert find_java(environ(home, good)).home == str(good)
