"""Finds a Java that Spark can run on, and keeps an archive of its classes for a fast start."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dil.errors import ExecutionError

NEEDED = 17
_FEATURE = re.compile(r"\D")  # characters after the feature release: 17.0.15, 21-ea, 25+36
_PLACES = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/java/*")
# An archive that no run used for so long is deleted.
_UNUSED_S = 30 * 24 * 3600
_CANNOT_ARCHIVE = range(18, 25)  # of these, only 21 was tried


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


class ClassArchive:
    """A class-data-sharing archive of one Java and one Spark in the folder ``cache``.

    The archive saves seconds per start. The JVM of the first local run writes it when it exits,
    after the run; later runs map it. It is bound to the Java version and to Spark's jars: if either
    changes, a new archive is made, and old archives that are not used are deleted. A JVM that
    cannot use an archive starts without it. Java 21 cannot: when it writes an archive, it leaves
    out the second mention of a jar, and Spark's class path mentions one twice. Java 17 and 25 can.
    """

    def __init__(self, cache: Path, java: Java, jars: Path) -> None:
        names = sorted(
            f"{jar.name} {(status := jar.stat()).st_size} {status.st_mtime_ns}"
            for jar in jars.glob("*.jar")
        )
        text = "\n".join([java.home, java.version, str(jars), *names])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._archive = cache / f"spark-classes-{digest}.jsa"
        self._is_usable = java.major not in _CANNOT_ARCHIVE
        self._part: Path | None = None

    def jvm_options(self) -> tuple[str, ...]:
        """Return the JVM options that use the archive, or that make it if there is none."""
        if not self._is_usable:
            return ()
        try:
            self._archive.parent.mkdir(parents=True, exist_ok=True)
            self._adopt_finished()
        except OSError:
            return ()
        if self._archive.exists():
            with suppress(OSError):
                os.utime(self._archive)
            return (f"-XX:SharedArchiveFile={self._archive}", "-Xshare:auto", "-Xlog:cds*=off")
        # Archives of other environments are deleted: an archive takes 70 MB.
        for left in self._archive.parent.glob("spark-classes-*"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _UNUSED_S:
                    left.unlink()
        self._part = self._archive.with_suffix(f".{uuid.uuid4().hex[:8]}.part")
        return (f"-XX:ArchiveClassesAtExit={self._part}", "-Xlog:disable", "-Xlog:all=off")

    def written_by(self, pid: int) -> None:
        """Record which JVM writes the archive; when the JVM has ended, the archive is complete."""
        if self._part is not None:
            with suppress(OSError):
                self._part.with_suffix(".pid").write_text(str(pid))

    def _adopt_finished(self) -> None:
        for note in self._archive.parent.glob(f"{self._archive.stem}.*.pid"):
            part, writer = note.with_suffix(".part"), note.read_text()
            if not writer.isdecimal():
                part.unlink(missing_ok=True)  # the note is damaged: the archive may be incomplete
            elif _is_alive(int(writer)):
                continue
            elif part.exists():
                part.replace(self._archive)
            note.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
