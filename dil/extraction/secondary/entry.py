"""Reads one entry of ``ms.secondary.input``: the fields of its rows, filters, encrypted texts."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dil.errors import ConfigError, SourceError, WriteError
from dil.extraction.secondary.columns import Allowance, InputLimits, exact_json
from dil.extraction.secondary.formats import read_rows, unreadable
from dil.extraction.secondary.places import LiveFiles, find_files
from dil.model.json import JsonObject, JsonValue, compact
from dil.model.path import Missing, is_jsonpath
from dil.model.secondary import SecondaryInput
from dil.model.secret import OpenedText, Secret
from dil.secrets import SecretError, is_encrypted
from dil.storage import Filesystem
from dil.text.java_regex import compile_java
from dil.text.paths import compile_path, find, name_of

log = logging.getLogger(__name__)

KEY = "ms.secondary.input"
# Categories that the driver reads before planning; tasks read the other categories.
_KEPT = frozenset({"activation", "authentication"})


@dataclass(frozen=True, slots=True)
class SecondaryAccess:
    """The functions and limits for reading secondary input.

    ``filesystem_for`` returns the store of a path. ``live_files`` returns the paths of the live
    files of a dataset that DIL writes, None if no run has published to it yet. ``decrypt`` decrypts
    an ENC(...) text for a purpose; no other text is passed to it, whatever the data holds.
    ``limits`` bound the rows, bytes and memory of reading.
    """

    filesystem_for: Callable[[str], Filesystem]
    live_files: LiveFiles
    decrypt: Callable[[str, str], Secret]
    limits: InputLimits = field(default_factory=InputLimits)


@dataclass(frozen=True, slots=True)
class SecondaryEntry:
    """One entry of ``ms.secondary.input``, with the path to read."""

    source: SecondaryInput
    path: str
    access: SecondaryAccess
    parse_json: bool = False

    def rows(self) -> Iterator[dict[str, JsonValue]]:
        """Yield the fields of each row that passes the filters, in the order of paths and rows.

        ENC(...) texts are not decrypted.

        Raises:
            InputNotThereError: the path does not exist, or a file vanished while it was read.
            SourceError: the store or a file cannot be read, or lacks a column of the entry.
        """
        filesystem = self.access.filesystem_for(self.path)
        patterns = {name: compile_java(text) for name, text in self.source.filters.items()}
        fields = {name_of(text): text for text in self.source.fields}
        columns = tuple(dict.fromkeys(map(_column, (*fields.values(), *patterns))))
        allowed = Allowance(self.access.limits, is_kept=self.source.category in _KEPT)
        for path in self._files(filesystem):
            is_named = path == self.path
            for row in read_rows(filesystem, path, columns, allowed, is_named=is_named):
                if all(_passes(self._value(row, text), each) for text, each in patterns.items()):
                    yield {
                        name: self._parsed(self._value(row, text)) for name, text in fields.items()
                    }

    def opened(self, column: str, text: str) -> Secret:
        """Return the plain text of an ENC(...) text.

        Raises:
            ConfigError: no master password fits, or the text was encrypted for another field.
        """
        try:
            return self.access.decrypt(text, f"{KEY}:{column}")
        except SecretError as error:
            what = f'names {self.path}, in which a text of column "{column}" {error.what}'
            raise ConfigError.single(KEY, what, error.fix) from error

    def encrypted_in(self, row: Mapping[str, JsonValue]) -> list[str]:
        """Return the fields with ENC(...) texts that the job asks to decrypt.

        Rows are data: a person who can write rows must not be able to get a secret decrypted and
        sent.
        """
        found = [
            name for name, value in row.items() if isinstance(value, str) and is_encrypted(value)
        ]
        if found and not self.source.is_opened:
            _tell_of_data(self.source.path, found[0])
            return []
        return found

    def revealed(self, row: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return a row; decrypt its ENC(...) texts if the job asks for it. Do not print the row."""
        opened = {
            name: self._parsed(OpenedText.of(self.opened(name, text).reveal(), text))
            for name in self.encrypted_in(row)
            if (text := str(row[name]))
        }
        return {**row, **opened}

    def _files(self, filesystem: Filesystem) -> tuple[str, ...]:
        try:
            return find_files(filesystem, self.path, self.access.live_files)
        except OSError as error:
            raise unreadable(self.path, error) from error
        except WriteError as error:  # Filesystems raise this error for reading, too.
            raise SourceError(
                f"{self.path} cannot be read: {error.message}", f"Check its permissions and {KEY}."
            ) from error

    def _value(self, row: JsonObject, text: str) -> JsonValue:
        """Return a field of a row, null if it is a JSONPath that finds nothing."""
        if not is_jsonpath(text):
            return row[text]
        found = find({name: self._parsed(value) for name, value in row.items()}, text)
        return None if isinstance(found, Missing) else found

    def _parsed(self, value: JsonValue) -> JsonValue:
        """Return a JSON text parsed if the entry asks for it; other values unchanged."""
        if not self.parse_json or not isinstance(value, str):
            return value
        text = value.strip()
        if (text[:1], text[-1:]) not in {("{", "}"), ("[", "]")}:
            return value
        try:
            parsed = exact_json(text)
            compact(parsed).encode()  # a text in it may be half of a surrogate pair
        except (ValueError, RecursionError):
            return value
        return parsed


@functools.lru_cache(maxsize=64)
def _tell_of_data(path: str, name: str) -> None:
    """Warn once for each input that encrypted texts are not decrypted."""
    log.warning(
        '%s: texts ENC(...) in "%s" of %s are data and are not decrypted; to decrypt them, set'
        ' "encrypted": true in the entry',
        KEY,
        name,
        path,
    )


def _column(text: str) -> str:
    """Return the column of a field: the first name of a JSONPath, else the text itself."""
    return str(compile_path(text).steps[0]) if is_jsonpath(text) else text


def _passes(value: JsonValue, pattern: re.Pattern[str]) -> bool:
    """Return whether the whole text of a value matches; null never matches."""
    if value is None:
        return False
    text = value if isinstance(value, str) else compact(value)
    return pattern.fullmatch(text) is not None
