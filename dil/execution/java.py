"""Finds a Java that Spark can run on."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dil.errors import ExecutionError

NEEDED = 17
_FEATURE = re.compile(r"\D")  # characters after the feature release: 17.0.15, 21-ea, 25+36
_PLACES = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/java/*")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation; ``version`` is its full text, for example 17.0.15."""

    home: str
    version: str

    @property
    def major(self) -> int:
        """Return the feature release, 17 for 17.0.15."""
        return int(_FEATURE.split(self.version, maxsplit=1)[0])


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the first Java 17 or newer in JAVA_HOME, the path, and the usual places.

    Raises:
        ExecutionError: there is no such Java; the message says how to get one.
    """
    seen = []
    for home in _homes(environ):
        java = _probe(home)
        if java is not None and java.major >= NEEDED:
            return java
        if java is not None:
            seen.append(f"{home} is Java {java.version}")
    raise ExecutionError(
        f"no Java {NEEDED} or newer was found" + (f" ({'; '.join(seen)})" if seen else ""),
        "Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: "
        "brew install openjdk@17) or set JAVA_HOME.",
    )


def _homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _PLACES:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def _probe(home: Path) -> Java | None:
    """Return the Java installed in a folder; its release file saves the start of a JVM."""
    program = home / "bin" / "java"
    if not program.exists():
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.exists() else ""
    if found := re.search(r'JAVA_VERSION="([0-9][^"]*)"', text):
        return Java(str(home), found.group(1))
    try:
        answer = subprocess.run(  # noqa: S603 - the program the user configured
            [str(program), "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None  # built for another machine, or hanging
    found = re.search(r'version "([0-9][^"]*)"', answer.stderr)
    return Java(str(home), found.group(1)) if found else None
