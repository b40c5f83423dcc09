"""Entries to typed values: every property of the table, parsed or defaulted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dil.config import settings_json, values
from dil.config.canonical import shown
from dil.config.entry import Entry
from dil.config.findings import Findings
from dil.config.key_files import located
from dil.config.lenient_json import JsonError, parse
from dil.config.paths import local_path
from dil.config.preprocessing import names_file_dump
from dil.config.property import Property, Support, ValueType
from dil.config.shape import ShapeError, Surroundings
from dil.config.table import TABLE
from dil.config.table_job import SECRETS
from dil.errors import Origin
from dil.model.json import JsonValue
from dil.model.secret import Secret
from dil.secrets import SecretResolver, master_password_files, read_master_passwords

# Accepted without effect, and likely to be missed when it has none.
_NOTED = {"job.schedule", "job.lock.enabled", "extractor.class"}
_KEY_FILE_FIX = "Name a file whose first line is the master password."
# Planning and looking at state do without the source, and not without the state store.
_STATE_SECRETS = "state.store."
# An empty array is an error here, not "blank": behaviour.md B19, checks 9 and 14.
_NEVER_EMPTY = {"ms.parameters", "ms.output.schema"}
_TABLE = "extract.table.name"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job file is: its name as given and its absolute folder; and the environment."""

    path: str
    folder: Path
    environ: Mapping[str, str]


def evaluate(
    entries: Mapping[str, Entry], place: Place, findings: Findings, *, secrets: bool = True
) -> tuple[dict[str, object], Surroundings]:
    """Return the value of every property, and what secrets and zones were read with.

    A property with a problem holds its default. Without ``secrets`` those that cannot be read
    are empty, with a notice.
    """
    plain = Surroundings(SecretResolver(place.environ, place.folder), "UTC", _no_notice)
    first = [entry.name for entry in SECRETS.properties]
    found = evaluate_some(entries, [*first, "ms.timezone"], plain, findings)
    resolver = _resolver(found, place, findings, needed=secrets)
    around = Surroundings(resolver, str(found["ms.timezone"]), _no_notice, secrets)
    rest = [name for name in TABLE if name not in found]
    return {**found, **evaluate_some(entries, rest, around, findings)}, around


def _no_notice(what: str, fix: str) -> None:
    """Stand in until the property is known that a notice is about."""
    del what, fix


def evaluate_some(
    entries: Mapping[str, Entry],
    names: Iterable[str],
    around: Surroundings,
    findings: Findings,
    *,
    supported: Collection[str] = (),
) -> dict[str, object]:
    """Return the values of some properties.

    Those in ``supported`` are taken although the table says that they come later.
    """
    found: dict[str, object] = {}
    for name in names:
        entry, written = TABLE[name], entries.get(name)
        found[name] = _value(entry, written, around, findings)
        if written is not None and name not in supported and findings.is_sound(name):
            _report_support(entry, written, found[name], findings)
    return found


def report_missing(
    entries: Mapping[str, Entry], blanks: Mapping[str, Entry], path: str, findings: Findings
) -> None:
    """Report required properties that are not set, or blank."""
    for entry in TABLE.values():
        if not entry.required or entry.name in entries:
            continue
        if entry.name == _TABLE and _dumps_files(entries):
            continue
        if entry.name in blanks:
            origin = blanks[entry.name].origin
            findings.problem(entry.name, "is required and blank", entry.meaning, origin)
        else:
            typo = findings.likely_typos.get(entry.name)
            fix = f"Is {typo.key} ({typo.origin}) meant? {entry.meaning}" if typo else entry.meaning
            findings.problem(entry.name, "is required and not set", fix, Origin(path))


def _dumps_files(entries: Mapping[str, Entry]) -> bool:
    """Tell whether a job has no rows, so that its dataset needs no name."""
    written = entries.get("ms.extractor.class")
    return written is not None and names_file_dump(written.text.strip())


def _resolver(
    found: Mapping[str, object], place: Place, findings: Findings, *, needed: bool
) -> SecretResolver:
    location = found["encrypt.key.loc"]
    count = found["num.encrypt.keys"]
    passwords: tuple[str, ...] = ()
    missing: tuple[Path, ...] = ()
    if isinstance(location, str) and isinstance(count, int):
        try:
            path = local_path(location, place.folder)
            passwords = read_master_passwords(path, count)
            if not passwords:
                missing = master_password_files(path, count)
                findings.notice(
                    "encrypt.key.loc", f"names {path}, which does not exist", _KEY_FILE_FIX
                )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            report = findings.problem if needed else findings.notice
            report("encrypt.key.loc", f"cannot be read: {reason}", _KEY_FILE_FIX)
    is_strong = found["encrypt.use.strong.encryptor"] is True
    return SecretResolver(place.environ, place.folder, passwords, is_strong, missing)


def _value(
    entry: Property, written: Entry | None, around: Surroundings, findings: Findings
) -> object:
    if written is None or not findings.is_sound(entry.name):
        return blank(entry)
    try:
        value = _parsed(entry, written, around, findings)
    except values.ValueProblem as problem:
        text = shown(written, secret=entry.secret)
        reason = f", which {problem.what}" if problem.what else ""
        findings.problem(entry.name, f"is {text}{reason}", problem.fix, written.origin)
        return blank(entry)
    except ShapeError as error:
        for what, fix in error.findings:
            findings.problem(entry.name, what, fix, written.origin)
        # A secret that cannot be read is not a missing one; checks must not call it that.
        return Secret("") if entry.secret else blank(entry)
    return value


def blank(entry: Property) -> object:
    """Return what a property holds that is not set."""
    return settings_json.empty(entry.name) if entry.type.is_json else values.default(entry)


def _parsed(entry: Property, written: Entry, around: Surroundings, findings: Findings) -> object:
    text, folder = written.text.strip(), around.resolver.folder
    if entry.secret:
        is_of_state = entry.name.startswith(_STATE_SECRETS)
        secret = at_entry(around, written, findings).secret(text, is_always_read=is_of_state)
        return located(entry.name, secret, folder)
    if entry.type.is_json:
        return _json(entry, written, around, findings)
    if entry.type is ValueType.WORD_OR_OBJECT:
        is_object = text.startswith("{")
        return _read_json(entry, written, findings) if is_object else values.word(entry, text)
    return located(entry.name, values.parse(entry, text), folder)


def _json(entry: Property, written: Entry, around: Surroundings, findings: Findings) -> object:
    value = _read_json(entry, written, findings)
    is_array = isinstance(value, list)
    if is_array is not (entry.type is ValueType.JSON_ARRAY) or not isinstance(
        value, list | Mapping
    ):
        kind = "array" if entry.type is ValueType.JSON_ARRAY else "object"
        raise ShapeError((f"is no JSON {kind}", _FORMS[kind]))
    if not value and entry.name not in _NEVER_EMPTY:
        return blank(entry)
    return settings_json.read(entry.name, value, at_entry(around, written, findings))


def at_entry(around: Surroundings, written: Entry, findings: Findings) -> Surroundings:
    """Return the surroundings whose notices are about one entry."""
    return replace(
        around, notice=lambda what, fix: findings.notice(written.key, what, fix, written.origin)
    )


_FORMS = {"array": "Write [...].", "object": "Write {...}."}


def _read_json(entry: Property, written: Entry, findings: Findings) -> JsonValue:
    try:
        value, difference = parse(written.text)
    except JsonError as error:
        origin = written.origin_of_line(error.line)
        findings.problem(entry.name, f"is no JSON: {error.reason}", _json_fix(written), origin)
        raise ShapeError from error
    if difference:
        findings.notice(entry.name, difference, "", written.origin)
    return value


def _json_fix(written: Entry) -> str:
    is_yaml = Path(written.origin.path).suffix in {".yaml", ".yml"}
    return _JSON_FIX if is_yaml or '"' not in written.text else _QUOTE_FIX


_JSON_FIX = 'Write [...] or {...}; names and texts stand in double quotes: {"name": "text"}.'
_QUOTE_FIX = r'In a property file a backslash is doubled: \\" is a quote inside a JSON string.'


def _report_support(entry: Property, written: Entry, value: object, findings: Findings) -> None:
    """Report a value that differs from the default and does not have its effect."""
    if value == blank(entry):
        return
    if entry.support is Support.LATER:
        if not _is_default_json(entry, value):
            fix = f"Leave it out, or write its default: {entry.default}." if entry.default else ""
            findings.problem(
                entry.name, "is not supported yet", fix or "Leave it out.", written.origin
            )
    elif entry.support is Support.INTERNAL:
        findings.notice(entry.name, "is set by planning; the value is ignored", "", written.origin)
    elif entry.name in _NOTED:
        findings.notice(entry.name, "has no effect", entry.meaning, written.origin)


def _is_default_json(entry: Property, value: object) -> bool:
    if not entry.type.is_json or not entry.default:
        return False
    default, _ = parse(entry.default)
    return value == default
