"""Maps written keys to keys of the table: aliases, old keys, misspellings and unknown keys.

See rule F6.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace

from dil.config.entry import Entry
from dil.config.findings import UNKNOWN, Findings
from dil.config.table import ALIASES, OWN_PREFIX, PLUGIN_PREFIX, TABLE
from dil.model.json import as_text, compact
from dil.model.messages import nearest_word, property_suggestion, quote
from dil.text.lenient_json import JsonError, parse

MISSPELLED: dict[str, str] = {
    "ms.parameter": "ms.parameters",
    "ms.http.grace.period.days": "ms.grace.period.days",
    "ms.default.data.type": "ms.data.default.type",
}
# The beginnings of properties outside `ms.`, and the similarity from which on a key counts as a
# misspelling.
_PREFIXES = tuple(
    {f"{name.partition('.')[0]}." for name in TABLE if not name.startswith(OWN_PREFIX)}
)
_CLEARLY = 0.85
_WHERE_KEYS_ARE = "Keys of a plug-in class of your own begin with ms.x."
_FACTORIES = ("DefaultConnectionClientFactory", "SecureConnectionClientFactory")


def _known_factory(text: str) -> str:
    return text if text.rpartition(".")[2] in _FACTORIES else ""


def _header_index(text: str) -> str:
    return {"true": "0", "false": "-1"}.get(text.strip().lower(), text)


def _cleansing(text: str) -> str:
    return json.dumps({"enabled": text.strip().lower()})


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of an old key.

    ``use`` is None if the key is dropped. If ``member`` is set, the value moves into this member of
    the JSON object ``use``. ``convert`` gives the new text, blank if there is none.
    """

    use: str | None
    member: str = ""
    convert: Callable[[str], str] = str


DEPRECATED: dict[str, Replacement] = {
    "dataset.name": Replacement("extract.table.name"),
    "ms.csv.column.header": Replacement("ms.csv", "columnHeaderIndex", _header_index),
    "ms.csv.column.header.index": Replacement("ms.csv", "columnHeaderIndex"),
    "ms.csv.column.projection": Replacement("ms.csv", "columnProjection"),
    "ms.csv.escape.character": Replacement("ms.csv", "escapeCharacter"),
    "ms.csv.quote.character": Replacement("ms.csv", "quoteCharacter"),
    "ms.csv.separator": Replacement("ms.csv", "fieldSeparator"),
    "ms.csv.skip.lines": Replacement("ms.csv", "linesToSkip"),
    "csv.max.failures": Replacement("ms.csv", "maxFailures"),
    "ms.converter.csv.max.failures": Replacement("ms.csv", "maxFailures"),
    "ms.converter.keep.null.strings": Replacement("ms.csv", "keepNullString"),
    "ms.csv.default.field.type": Replacement("ms.csv", "defaultFieldType"),
    "sftpConn.timeout": Replacement("ms.sftp.conn.timeout.millis"),
    "ms.encoding": Replacement("ms.source.data.character.set"),
    "ms.http.client.factory": Replacement("ms.connection.client.factory", "", _known_factory),
    "ms.source.schema.reader.factory": Replacement(
        "ms.connection.client.factory", "", _known_factory
    ),
    "ms.target.schema.reader.factory": Replacement(
        "ms.connection.client.factory", "", _known_factory
    ),
    "ms.watermark.type": Replacement(None),
    "ms.enable.cleansing": Replacement("ms.schema.cleansing", "", _cleansing),
}

# Keys that steer how Gobblin, its launchers and metrics run a job: real job files set them, without
# effect here. Keys that decide about rows are not among them, so that a warning names them. A part
# begins all keys of a part of Gobblin, Azkaban, Kafka or the JVM.
# Source: Gobblin's ``ConfigurationKeys`` and the ``.pull`` files of LinkedIn's DIL.
_PARTS_OF_GOBBLIN = (
    "admin.", "azkaban.", "email.", "fork.", "gobblin.", "job.commit.parallel", "job.lock.",
    "jobconf.", "jobexecutor.", "kafka.schemaRegistry.", "metrics.", "mr.", "scheduler.",
    "task.execution.", "task.state.collector.", "taskretry.", "tasktracker.", "yarn.",
)  # fmt: skip
OF_GOBBLIN = frozenset({
    "Xms", "Xmx", "bootstrap.servers", "cleanup.old.job.data",
    "cleanup.staging.data.by.initializer", "cleanup.staging.data.per.task",
    "data.publisher.canBeSkipped", "data.publisher.extract.type", "data.publisher.final.name",
    "data.publisher.metadata.output.dir", "data.publisher.overwrite.enabled",
    "event.metadata.generator.class", "job.class", "job.config.path", "job.dependencies",
    "job.hdfs.files", "job.hdfs.jars", "job.jars", "job.jars.uploading.retry.maximum",
    "job.listeners", "job.local.files", "job.max.failures", "job.retriggering.enabled", "job.tag",
    "job.tracking.url", "key.serializer", "launcher.type", "overwrite.configs.in.statestore",
    "retention.job.class", "source.max.number.of.partitions", "state.store.compress.values",
    "state.store.db.conn.min.evictable.idle.time", "state.store.factory.class",
    "task.ignoreCloseFailures", "task.status.reportintervalinms", "task.timeout.seconds",
    "taskexecutor.threadpool.maxsize", "user.to.proxy", "value.serializer",
    "workunit.creation.and.run.interval", "workunit.enableTrackingLogs", "writer.addTaskTimestamp",
    "writer.eager.initialization", "writer.group.name", "writer.preserve.file.name",
})  # fmt: skip


def canonical(
    entries: Mapping[str, Entry], findings: Findings, *, lenient: bool, used: Container[str] = ()
) -> dict[str, Entry]:
    """Return the non-blank entries under the names of the table, and the entries of plug-ins.

    An old key moves to its replacement with a notice; an old and a new key with different values
    are a problem (rule F6). An unknown ``ms.`` key is a problem; so is any other key that begins
    like a property and nearly equals a property. If ``lenient`` is true, both are notices. Every
    other unknown key is a notice, unless ``used`` says that a ``${}`` refers to it.
    """
    written = {key: entry for key, entry in entries.items() if entry.text.strip()}
    known = {
        key: entry
        for key, entry in written.items()
        if key in TABLE or key.startswith(PLUGIN_PREFIX)
    }
    for key, entry in written.items():
        if key in ALIASES:
            _move(entry, ALIASES[key], entry.text, known, findings)
            continue
        replacement = DEPRECATED.get(key)
        if replacement is None:
            continue
        use, text = replacement.use, replacement.convert(entry.text)
        if use is None or not text:
            findings.notice(key, "is an old key without effect", "Remove it.", entry.origin)
        elif replacement.member:
            _move_into(entry, use, replacement.member, text, known, findings)
        elif _move(entry, use, text, known, findings):
            findings.notice(key, "is an old key", f"Write {use}={text} instead.", entry.origin)
    _report_unknown(written, findings, used, lenient=lenient)
    return known


def _move(entry: Entry, name: str, text: str, known: dict[str, Entry], findings: Findings) -> bool:
    """Put an entry under another name; return False if that name has another value already."""
    present = known.get(name)
    if present is not None and present.text.strip() != text.strip():
        findings.problem(
            entry.key,
            f"contradicts {name}",
            f"Keep {name} ({present.origin}) and remove {entry.key}.",
            entry.origin,
        )
        return False
    known.setdefault(name, replace(entry, key=name, text=text, breaks=()))
    return True


def _move_into(
    entry: Entry,
    name: str,
    member: str,
    text: str,
    known: dict[str, Entry],
    findings: Findings,
) -> None:
    """Put an entry into a member of a JSON property."""
    try:
        members, _ = parse(known[name].text) if name in known else ({}, "")
    except JsonError:
        return  # another check reports broken JSON
    if not isinstance(members, Mapping):
        return
    present = members.get(member)
    if present is not None and as_text(present) != text:
        findings.problem(
            entry.key,
            f"contradicts {member} of {name}",
            f"Keep {name} and remove {entry.key}.",
            entry.origin,
        )
        return
    merged = compact({**members, member: text})
    findings.notice(entry.key, "is an old key", f"Write {name}={merged} instead.", entry.origin)
    known[name] = replace(known.get(name, entry), key=name, text=merged, breaks=())


def _report_unknown(
    written: Mapping[str, Entry], findings: Findings, used: Container[str], *, lenient: bool
) -> None:
    foreign: list[str] = []
    of_gobblin = [
        key
        for key in written
        if key not in TABLE and (key in OF_GOBBLIN or key.startswith(_PARTS_OF_GOBBLIN))
    ]
    for key, entry in written.items():
        is_known = key in TABLE or key in ALIASES or key in DEPRECATED or key in of_gobblin
        if is_known or key.startswith(PLUGIN_PREFIX):
            continue
        report = findings.notice if lenient else findings.problem
        if key in MISSPELLED:
            report(key, "is misspelled", f"Write {MISSPELLED[key]}.", entry.origin)
        elif key.lower().startswith(OWN_PREFIX):
            hint = property_suggestion(key, TABLE) or _WHERE_KEYS_ARE
            report(key, UNKNOWN, hint, entry.origin)
        elif key not in used:
            meant = nearest_word(key, TABLE)
            if not meant:
                foreign.append(key)
            elif key.lower().startswith(_PREFIXES) and nearest_word(key, TABLE, cutoff=_CLEARLY):
                report(key, UNKNOWN, f'Did you mean "{meant}"?', entry.origin)
            else:
                findings.likely_typo(key, meant, entry.origin)
    if of_gobblin := [key for key in of_gobblin if key not in used]:
        findings.information(
            "keys that steer Gobblin, its launchers and metrics have no effect here:"
            f" {', '.join(of_gobblin)}",
            written[of_gobblin[0]].origin,
        )
    if foreign:
        findings.notice(
            "", f"These keys are unknown, and no ${{}} refers to them: {', '.join(foreign)}"
        )


def shown(entry: Entry, *, secret: bool = False) -> str:
    """Return an entry's value for a message, masked if it may be a secret."""
    return '"***"' if secret or entry.is_masked else quote(entry.text)
