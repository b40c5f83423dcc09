"""Publishes plain files: moves them to their names, then lists them in the dataset's manifest."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock

from dil.errors import ConfigError
from dil.model.dataset import Intent, Move, PublishedFile
from dil.model.destination import TableFormat
from dil.model.job import PublishingSpec, PublishMode
from dil.publishing import layout, manifest
from dil.publishing.destination import place_files
from dil.publishing.dumps import lost_moves
from dil.spi.destination import Destination, DestinationContext
from dil.storage import Filesystem
from dil.storage.side_by_side import call_each

# A file is deleted at most this many seconds after the live files were read. In this time no other
# run can take over the lease.
_FRESH_S = 1.0
# The folders in which DIL's tables, and all Delta tables, keep their logs.
_LOGS = {"_delta_log": TableFormat.DELTA, "_iceberg": TableFormat.ICEBERG}


class FileDestination(Destination):
    """The dataset's folder and its manifests."""

    modes = frozenset(PublishMode)

    def __init__(self, spec: PublishingSpec, filesystem: Filesystem) -> None:
        super().__init__(DestinationContext(spec, filesystem))
        self._spec = spec
        self._filesystem = filesystem
        self._folder = layout.dataset_dir(spec)

    def check(self) -> None:
        """Raise if the folder holds a table; plain files need not have the same columns.

        Raises:
            ConfigError: the folder has a table's log, which would not list the published files.
        """
        for name, word in _LOGS.items():
            if self._filesystem.is_folder(f"{self._folder}/{name}"):
                raise ConfigError.single(
                    "ms.table.format",
                    f"is {self._spec.table.format}, but {self._folder} holds a table of format"
                    f" {word}, which would not list the rows",
                    f"Set ms.table.format={word}. Or choose another extract.table.name, or move"
                    " the folder away and run dil state forget.",
                )

    def live(self) -> tuple[PublishedFile, ...]:
        """Return the files of the newest manifest."""
        return manifest.live_files(self._filesystem, self._folder)

    def next_sequence(self) -> int:
        """Return the number of the next manifest."""
        return manifest.newest(self._filesystem, self._folder).sequence + 1

    def landed(self, source: str) -> int:
        """Return the largest number of a source's commits, -1 if the source has no commit."""
        return manifest.newest(self._filesystem, self._folder).landed.get(source, -1)

    def uri(self, path: str) -> str:
        """Return the file's URI."""
        return self._filesystem.uri(path)

    def lost(self, intent: Intent) -> tuple[Move, ...]:
        """Return the moves whose file is neither staged nor at its name."""
        return lost_moves(intent.commit.moves, self._filesystem)

    def has_landed(self, intent: Intent) -> bool:
        """Return whether a manifest has the commit."""
        found = manifest.newest(self._filesystem, self._folder)
        landed = found.landed.get(intent.commit.source_name, -1)
        return landed >= intent.sequence and not found.is_given_up(intent)

    def fence(self, intent: Intent) -> None:
        """Prevent the intent from landing later, unless a manifest has it already."""
        manifest.fence(self._filesystem, intent)

    def is_given_up(self, intent: Intent) -> bool:
        """Return whether ``fence`` came before the commit."""
        return manifest.newest(self._filesystem, self._folder).is_given_up(intent)

    def carry_out(self, intent: Intent) -> None:
        """Move files in, write the next manifest, delete the replaced files."""
        commit = intent.commit
        place_files(commit.moves, self._spec, self._filesystem)
        if commit.moves or commit.removes:
            manifest.advance(self._filesystem, intent.dataset_dir, commit, intent.sequence)
        self._delete(commit.removes, intent.dataset_dir)

    def _delete(self, files: Iterable[PublishedFile], folder: str) -> None:
        """Delete those of the files that are not live.

        A replaced file may be live for two reasons. A dumped file has the name of the file that it
        replaces. Or another driver finished the publish while this driver slept, and then an undo
        brought the file back.
        """
        known = _LiveFiles(self._filesystem, folder)

        def delete(file: PublishedFile) -> None:
            if file.uri not in known.uris():
                self._filesystem.delete_file(self._filesystem.path_of(file.uri))

        call_each(self._filesystem, delete, files)


class _LiveFiles:
    """The live files; they are read again if the last reading is too old."""

    def __init__(self, filesystem: Filesystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._uris: frozenset[str] = frozenset()
        self._looked = 0.0
        self._lock = Lock()

    def uris(self) -> frozenset[str]:
        with self._lock:
            # Unlike a monotonic clock, this clock runs while the machine sleeps.
            if abs(time.time() - self._looked) > _FRESH_S:
                self._looked = time.time()
                found = manifest.live_files(self._filesystem, self._folder)
                self._uris = frozenset(file.uri for file in found)
            return self._uris
