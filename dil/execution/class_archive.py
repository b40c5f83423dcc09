"""A class-data-sharing archive of the JVM in the user's cache; it saves seconds per start.

The JVM of the first local run writes the archive when it exits, after the run; later runs map it.
The archive is bound to the Java version and to Spark's jars: if either changes, a new archive is
made, and old archives that are not used are deleted. A JVM that cannot use an archive starts
without it. Java 21 cannot: when it writes an archive, it leaves out the second mention of a jar,
and Spark's class path mentions one twice. Java 17 and 25 can.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

from dil.execution.java import Java

_UNUSED_S = 30 * 24 * 3600
_CANNOT = range(18, 25)  # of these, only 21 was tried


class ClassArchive:
    """The archive of one Java and one Spark in the folder ``cache``."""

    def __init__(self, cache: Path, java: Java, jars: Path) -> None:
        names = sorted(
            f"{jar.name} {(status := jar.stat()).st_size} {status.st_mtime_ns}"
            for jar in jars.glob("*.jar")
        )
        text = "\n".join([java.home, java.version, str(jars), *names])
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._archive = cache / f"spark-classes-{digest}.jsa"
        self._is_usable = java.major not in _CANNOT
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
