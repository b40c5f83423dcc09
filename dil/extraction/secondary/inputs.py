"""Reads the rows of each category of secondary input (rules P14, P15 and G38)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias, TypeVar

from dil.errors import SourceContractError, SourceError
from dil.extraction.secondary.columns import exact_json
from dil.extraction.secondary.entry import KEY, SecondaryAccess, SecondaryEntry
from dil.extraction.secondary.places import InputNotThereError
from dil.model.json import JsonValue, as_text, compact
from dil.model.secondary import SecondaryRows, SecondarySpec, SecondaryVariables
from dil.model.secret import Secret
from dil.secrets import is_encrypted, learn
from dil.text.origins import refuse_other_path
from dil.text.paths import name_of
from dil.text.variables import substitute

log = logging.getLogger(__name__)

T = TypeVar("T")
Wait: TypeAlias = Callable[[float], None]

# Planning holds all units in memory; this is far more than one run can work through.
_MOST_UNITS = 1_000_000
# The driver learns the secrets of at most this many units: it asks about the first ones only.
_LEARNED = 100


def read_secondary_inputs(
    secondary: SecondarySpec,
    access: SecondaryAccess,
    wait: Wait | None = None,
    planned: Iterable[str] = (),
) -> SecondaryRows:
    """Return the rows of activation and authentication input; runs on the driver, before planning.

    Args:
        secondary: The entries that the job declares.
        access: The functions and limits for reading files and secrets.
        wait: Waits for a number of seconds. An entry with a ``retry`` is read again after its delay
            while its path does not exist. If ``wait`` is None, no entry is read again.
        planned: The units of a plan that was made earlier, as compact JSON. The input may not have
            them any more, but their ENC(...) texts are decrypted like those of rows.

    Raises:
        SourceError: a path does not exist, or cannot be read.
        SourceContractError: a file is damaged or lacks a column, activation has too many rows,
            or authentication does not have exactly one row.
        ConfigError: an ENC(...) text cannot be decrypted.
    """
    units = _read_units(secondary, access, wait)
    authentication = read_authentication(secondary, access, wait)
    for secret in authentication.values():
        learn(secret)  # No job file names this value, and it must not be printed.
    if units is None:
        return SecondaryRows(None, SecondaryVariables(authentication))
    lost = (unit for unit in planned if unit not in units.texts)
    encrypted = {**_encrypted_in(lost, secondary, access), **units.encrypted}
    opened = {key: entry.opened(*key) for key, entry in encrypted.items()}
    for secret in islice(opened.values(), _LEARNED):
        learn(secret)
    variables = SecondaryVariables(authentication, opened)
    return SecondaryRows(tuple(units.texts), variables, _notes(units))


def read_activation(secondary: SecondarySpec, access: SecondaryAccess) -> tuple[str, ...] | None:
    """Return the units as compact JSON, None if there is no activation input; decrypt nothing.

    This function serves a plan without a run. It reads only once, even if an entry has a ``retry``.

    Raises:
        SourceError: see ``read_secondary_inputs``.
    """
    units = _read_units(secondary, access, None)
    return None if units is None else tuple(units.texts)


def read_authentication(
    secondary: SecondarySpec, access: SecondaryAccess, wait: Wait | None = None
) -> dict[str, Secret]:
    """Return the fields of the one authentication row as text; empty if there is no such input.

    A task may call it again to get a renewed token.

    Raises:
        SourceError: see ``read_secondary_inputs``.
    """
    found: list[tuple[SecondaryEntry, dict[str, JsonValue]]] = []
    entries = _entries(secondary, access, "authentication")
    for entry in entries:
        # Two rows are enough to notice too many.
        rows = _patiently(entry, wait, lambda each: list(islice(each.rows(), 2)))
        found += [(entry, row) for row in rows]
    if not entries:
        return {}
    if len(found) != 1:
        places = " and ".join(dict.fromkeys(entry.path for entry in entries))
        count = "no row" if not found else "more than one row"
        raise SourceContractError(
            f"the authentication input, {places}, has {count}; it must have exactly one",
            f"Let its job replace its output (ms.publish.mode=replace), or add filters to {KEY}.",
        )
    ((entry, row),) = found
    fields = {name: _secret(entry, name, value) for name, value in row.items()}
    for secret in fields.values():
        learn(secret)  # Requests are shown with these texts.
    return fields


def read_payload(
    secondary: SecondarySpec, access: SecondaryAccess, variables: Mapping[str, JsonValue]
) -> Iterator[dict[str, JsonValue]]:
    """Yield the rows to send; runs in a task, and holds one batch in memory at a time.

    ENC(...) texts are decrypted if the entry asks for it, else they are unchanged.

    ``variables`` are the variables of the first request; they replace ``{{name}}`` in paths.

    Raises:
        SourceError: a path does not exist, or cannot be read; trying again may help.
        SourceContractError: a variable of a path has no value, or the data is unfit.
        ConfigError: an ENC(...) text cannot be decrypted.
    """
    for template in _entries(secondary, access, "payload"):
        path = substitute(template.path, variables)
        if path.missing:
            names = ", ".join(f"{{{{{name}}}}}" for name in sorted(path.missing))
            raise SourceContractError(
                f"the payload path {template.path} uses {names}, which nothing gives a value",
                "Declare it in ms.parameters, or as a unit.",
            )
        refuse_other_path(template.path, path.text, variables)
        yield from _revealed(
            SecondaryEntry(template.source, path.text, access, template.parse_json)
        )


def read_validation(
    secondary: SecondarySpec, access: SecondaryAccess
) -> Iterator[dict[str, JsonValue]]:
    """Yield the rows that in-flow validation compares with, entry after entry.

    This runs in a task, and holds one batch in memory at a time.

    Raises:
        SourceError: a path does not exist, or cannot be read; trying again may help.
        SourceContractError: the data is unfit.
        ConfigError: an ENC(...) text cannot be decrypted.
    """
    for entry in _entries(secondary, access, "validation"):
        yield from _revealed(entry)


def _revealed(entry: SecondaryEntry) -> Iterator[dict[str, JsonValue]]:
    try:
        yield from map(entry.revealed, entry.rows())
    except InputNotThereError as error:
        raise _absent(error) from error


@dataclass(slots=True)
class _Units:
    """Units in order, each once.

    ``encrypted`` are the ENC(...) texts in them to decrypt, with the column and entry of each.
    """

    texts: dict[str, None] = field(default_factory=dict)
    encrypted: dict[tuple[str, str], SecondaryEntry] = field(default_factory=dict)
    repeated: int = 0

    def add(self, text: str) -> None:
        if text in self.texts:
            self.repeated += 1
        elif len(self.texts) == _MOST_UNITS:
            raise SourceContractError(
                f"the activation input has more than {_MOST_UNITS:,} different rows",
                f"Select fewer rows by the filters in {KEY}.",
            )
        self.texts[text] = None


def _read_units(
    secondary: SecondarySpec, access: SecondaryAccess, wait: Wait | None
) -> _Units | None:
    entries = _entries(secondary, access, "activation")
    if not entries:
        return None
    units = _Units()
    for entry in entries:
        more = _patiently(entry, wait, _units_of)
        for text in more.texts:
            units.add(text)
        units.repeated += more.repeated
        units.encrypted = {**more.encrypted, **units.encrypted}
    if not units.texts:
        log.warning("%s: the activation input has no rows, so there are no work units", KEY)
    for note in _notes(units):
        log.warning("%s: %s", KEY, note)
    return units


def _units_of(entry: SecondaryEntry) -> _Units:
    units = _Units()
    for row in entry.rows():
        units.add(compact(row))
        found = {(name, str(row[name])): entry for name in entry.encrypted_in(row)}
        units.encrypted.update(found)
    if not entry.source.fields:
        units.repeated = 0  # the job names no fields, so all rows are {}
    return units


def _encrypted_in(
    lost: Iterable[str], secondary: SecondarySpec, access: SecondaryAccess
) -> dict[tuple[str, str], SecondaryEntry]:
    """Return the ENC(...) texts, which an entry asks to decrypt, of units that the input lost.

    Raises:
        SourceContractError: the field is also one of an entry that does not ask for it.
    """
    entries = _entries(secondary, access, "activation")
    if not any(entry.source.is_opened for entry in entries):
        return {}
    found: dict[tuple[str, str], SecondaryEntry] = {}
    for unit in map(exact_json, lost):
        for name, text in unit.items() if isinstance(unit, dict) else ():
            if not isinstance(text, str) or not is_encrypted(text):
                continue
            having = [each for each in entries if name in map(name_of, each.source.fields)]
            if len({each.source.is_opened for each in having}) > 1:
                raise SourceContractError(
                    f'the plan has an encrypted text in the field "{name}", which only some entries'
                    f' of {KEY} declare as "encrypted"',
                    "Make the plan again, or give the fields of these entries different names.",
                )
            if having and having[0].source.is_opened:
                found[name, text] = having[0]
    return found


def _notes(units: _Units) -> tuple[str, ...]:
    if not units.repeated:
        return ()
    rows = "1 row" if units.repeated == 1 else f"{units.repeated:,} rows"
    return (f"the activation input repeats rows: {rows} left out, because the first one counts",)


def _secret(entry: SecondaryEntry, name: str, value: JsonValue) -> Secret:
    if value is None:
        raise SourceContractError(
            f'{entry.path}: "{name}" of the authentication row is null',
            f"Change the job that writes this row, or leave the field out of {KEY}.",
        )
    text = as_text(value)
    return entry.opened(name, text) if is_encrypted(text) else Secret(text)


def _entries(
    secondary: SecondarySpec, access: SecondaryAccess, category: str
) -> list[SecondaryEntry]:
    return [
        SecondaryEntry(source, source.path, access, secondary.parses_json)
        for source in secondary.of(category)
    ]


def _patiently(entry: SecondaryEntry, wait: Wait | None, read: Callable[[SecondaryEntry], T]) -> T:
    """Return the result of ``read``; try again while the path does not exist.

    The second try follows at once: the file may have vanished because its job replaced it.
    """
    retry = entry.source.retry
    delays = [0, *([retry.delay_s] * retry.count if retry and wait else [])]
    for number, delay in enumerate(delays):
        try:
            return read(entry)
        except InputNotThereError as error:
            if delay and wait is not None:
                log.warning(
                    "%s: %s; reading it again in %d s (%d of %d)",
                    KEY, error, delay, number, len(delays) - 1,
                )  # fmt: skip
                wait(delay)
    try:
        return read(entry)
    except InputNotThereError as error:
        raise _absent(error) from error


def _absent(error: InputNotThereError) -> SourceError:
    return SourceError(
        f"secondary input is missing: {error}",
        f"First run the job that writes it; retry in {KEY} waits for activation and authentication"
        " input. DIL does not expand * in names.",
    )
