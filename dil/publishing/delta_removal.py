"""Removes files with a deletion vector from a Delta table as a whole.

The log distinguishes a path with a deletion vector from the same path without it, and the library's
remove action cannot name the vector. So this module writes a transaction that only removes files,
and names the vectors from the log's add actions. If the module does not know the form of the log,
or a rule for the log's writers, it removes no file with a vector.

Source: the Delta transaction protocol, "Delta Log Entries", "Checkpoints", "Add File and Remove
File", "Transaction Identifiers", "Commit Provenance Information", "Table Features".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from dil.errors import WriteError
from dil.model.dataset import Intent
from dil.model.json import JsonObject
from dil.publishing.delta_store import transaction_time
from dil.storage import Filesystem

# Features without duties for a writer that only removes files and keeps the members of add actions.
_KNOWN = frozenset(
    {
        "appendOnly", "changeDataFeed", "checkConstraints", "clustering", "columnMapping",
        "deletionVectors", "domainMetadata", "generatedColumns", "identityColumns", "invariants",
        "rowTracking", "timestampNtz", "typeWidening", "typeWidening-preview",
        "v2Checkpoint", "vacuumProtocolCheck", "variantType",
    }
)  # fmt: skip
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
# Members of an add action that its remove action repeats.
_REPEATED = ("partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_COLUMNS = [f"add.{name}" for name in ("path", *_REPEATED)]


def removable(
    table: DeltaTable,
    folder: str,
    filesystem: Filesystem,
    wanted: Collection[str],
    uri_of: Callable[[str], str],
) -> Mapping[str, JsonObject]:
    """Return, by URI, the add actions of the wanted live files that can be removed.

    Args:
        table: The table at its newest version.
        folder: The folder of the table.
        filesystem: The filesystem of the folder.
        wanted: The URIs of files.
        uri_of: Returns the URI of an unescaped path of the log.
    """
    if not _KNOWN.issuperset(table.protocol().writer_features or ()):
        return {}
    log, version = f"{folder}/_delta_log", table.version()

    def uri_in(add: Mapping[str, Any]) -> str:
        return uri_of(unquote(str(add["path"])))

    base, parts = _newest_checkpoint(filesystem, log, version)
    found = {
        uri: add
        for part in parts
        for add in _adds_of_checkpoint(filesystem, part)
        if (uri := uri_in(add)) in wanted
    }
    for number in range(base + 1, version + 1):
        content = filesystem.content(f"{log}/{number:020}.json")
        if content is None:
            return {}  # The log begins later, with a checkpoint whose form is not known here.
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
        # A transaction that changes the vector of a file removes the file and adds it again, so
        # its removals are applied first.
        for action in actions:
            if remove := action.get("remove"):
                found.pop(uri_in(remove), None)
        for action in actions:
            if (add := action.get("add")) and (uri := uri_in(add)) in wanted:
                found[uri] = add
    return found


def write_removal(
    table: DeltaTable,
    folder: str,
    filesystem: Filesystem,
    adds: Iterable[Mapping[str, Any]],
    intent: Intent,
) -> None:
    """Write the table's next version, which removes these files and records an intent's publish.

    Raises:
        CommitFailedError: another writer committed first.
        DeltaError: the store refused to write, or its answer was lost.
    """
    path = f"{folder}/_delta_log/{table.version() + 1:020}.json"
    content = "\n".join(json.dumps(action) for action in _removal(adds, intent)) + "\n"
    try:
        is_written = filesystem.put_if_absent(path, content.encode())
    except WriteError as error:
        raise DeltaError(error.message) from error
    if not is_written:
        raise CommitFailedError(f"{path} exists already")


def _removal(adds: Iterable[Mapping[str, Any]], intent: Intent) -> Iterator[JsonObject]:
    commit, now = intent.commit, transaction_time()
    yield {
        "commitInfo": {
            "timestamp": now,
            "operation": "DELETE",
            "operationParameters": {},
            "engineInfo": "dil",
            "dil.run": commit.run_id,
            "dil.source": commit.source_name,
        }
    }
    yield {
        "txn": {
            "appId": commit.source_name,
            "version": intent.sequence,
            "lastUpdated": now,
        }
    }
    for add in adds:
        yield {
            "remove": {
                "path": add["path"],
                "deletionTimestamp": now,
                "dataChange": not commit.is_compaction,
                "extendedFileMetadata": True,
                **{name: add[name] for name in _REPEATED if add.get(name) is not None},
            }
        }


def _newest_checkpoint(filesystem: Filesystem, log: str, version: int) -> tuple[int, list[str]]:
    """Return the version of the newest whole checkpoint and its files; -1 if there is none.

    A checkpoint whose name has a UUID does not count.
    """
    parts: dict[tuple[int, int], list[str]] = {}
    for file in filesystem.files(log):
        match = _CHECKPOINT.fullmatch(file.path.removeprefix(f"{log}/"))
        if match is not None and int(match[1]) <= version:
            parts.setdefault((int(match[1]), int(match[3] or 1)), []).append(file.path)
    whole = [key for key, found in parts.items() if len(found) == key[1]]
    return (max(whole)[0], parts[max(whole)]) if whole else (-1, [])


def _adds_of_checkpoint(filesystem: Filesystem, path: str) -> Iterator[dict[str, Any]]:
    """Yield the add actions of a checkpoint file in the form of the log's JSON, without statistics.

    The extra files of a checkpoint of version 2 are not read.
    """
    with filesystem.open_input(path) as stream, pq.ParquetFile(stream) as file:
        for batch in file.iter_batches(columns=_COLUMNS):
            for add in batch.column("add").drop_null().to_pylist():
                vector = add.get("deletionVector")
                if vector is not None:
                    add["deletionVector"] = {
                        name: value for name, value in vector.items() if value is not None
                    }
                yield {**add, "partitionValues": dict(add["partitionValues"] or ())}
