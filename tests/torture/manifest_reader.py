"""Reads a published dataset by its manifest, again and again, while others run and are killed."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Self

from tests.jobs import dataset, published_ids

# The longest time between two looks.
_PAUSE_S = 0.05


class ManifestReader:
    """A thread that reads while the block runs; at its end nothing odd must have been seen.

    Whoever reads by the manifest sees each row once at most, work units as a whole, and never a
    file that is gone; a manifest never changes once it is there.

    Args:
        folder: The job's, of ``write_job``.
        groups: Rows, by unit and id, that come and go together, with the name of their group;
            empty where rows may come and go by themselves.
        seed: Of the moments at which it reads.
    """

    def __init__(
        self, folder: Path, groups: Mapping[tuple[str, int], object], seed: object
    ) -> None:
        self.looks = 0
        self.problems: list[str] = []
        self._folder = folder
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
            while not self._end.wait(self._random.random() * _PAUSE_S):
                self.look()
        except Exception as error:  # noqa: BLE001 - what a thread raises reaches nobody
            self.problems.append(repr(error))

    def look(self) -> None:
        """Read the dataset once."""
        while (newest := self._newest()) is not None:
            name, content = newest
            if self._seen.setdefault(name, content) != content:
                self.problems.append(f"{name} changed")
            files = [
                Path(file["uri"].removeprefix("file://")) for file in json.loads(content)["files"]
            ]
            try:
                rows = published_ids(files)
            except FileNotFoundError as error:
                if self._newest() != newest:
                    continue  # replaced meanwhile: the next manifest has its successors
                self.problems.append(f"{name} lists a file that is gone: {error}")
                return
            self._judge(name, rows)
            self.looks += 1
            return

    def _newest(self) -> tuple[str, bytes] | None:
        meta = dataset(self._folder) / "_dil"
        try:
            name = json.loads((meta / "current.json").read_bytes())["manifest"]
            return name, (meta / name).read_bytes()
        except FileNotFoundError:
            return None

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
