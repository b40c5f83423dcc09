"""Reads a published dataset by its manifest, again and again, while runs write and are killed."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from random import Random
from time import monotonic
from typing import Self

from tests.torture.lakes import Lake

# The longest pause between two looks, in seconds, and as a multiple of the time of the last look.
# On a server of this machine, a reader without pauses would slow down the runs that it watches.
_PAUSE_S = 0.05
_PAUSE_IN_LOOKS = 20


class ManifestReader:
    """A thread that reads while the block runs; ``problems`` must be empty at the end.

    A reader of the manifest sees each row at most once, work units as a whole, and never a file
    that is gone. A manifest never changes after it was written.

    Args:
        lake: Where the dataset is.
        groups: The name of the group of each row, by unit and id; rows of a group come and go
            together. Empty if rows may come and go by themselves.
        seed: The seed for the moments at which the thread reads.
    """

    def __init__(self, lake: Lake, groups: Mapping[tuple[str, int], object], seed: object) -> None:
        self.looks = 0
        self.problems: list[str] = []
        self._lake = lake
        self._sizes = Counter(groups.values())
        self._groups = groups
        self._random = Random(f"reader {seed}")
        self._seen: dict[str, bytes] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(60)

    def _read(self) -> None:
        try:
            took = 0.0
            while not self._end.wait(self._random.random() * max(_PAUSE_S, _PAUSE_IN_LOOKS * took)):
                begin = monotonic()
                self.look()
                took = monotonic() - begin
        except Exception as error:  # noqa: BLE001 - an error in a thread would be lost
            self.problems.append(repr(error))

    def look(self) -> None:
        """Read the dataset once."""
        while (newest := self._lake.newest()) is not None:
            name, content = newest
            if self._seen.setdefault(name, content) != content:
                self.problems.append(f"{name} changed")
            try:
                rows = self._lake.rows_of(content)
            except FileNotFoundError as error:
                if self._lake.newest() != newest:
                    continue  # replaced meanwhile: the next manifest has its successors
                self.problems.append(f"{name} lists a file that is gone: {error}")
                return
            self._judge(name, rows)
            self.looks += 1
            return

    def _judge(self, name: str, rows: Counter[tuple[str, int]]) -> None:
        doubled = [key for key, count in rows.items() if count > 1]
        if doubled:
            self.problems.append(f"{name} has rows twice: {doubled[:5]}")
        found: dict[object, int] = defaultdict(int)
        for key in rows:
            found[self._groups.get(key)] += 1
        parts = {
            group: count
            for group, count in found.items()
            if group in self._sizes and count != self._sizes[group]
        }
        if parts:
            self.problems.append(f"{name} has parts of work units: {parts}")
