"""Files that hold keys: where a relative path of one starts, and which are not there.

Tasks open them, on executors too, so a path becomes absolute. A file that this machine lacks may
still be on those, so its absence is a notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dil.config.findings import Findings
from dil.model.job import PreprocessorSpec
from dil.model.properties import Properties
from dil.model.secret import Secret
from dil.model.settings import TlsSettings
from dil.storage.locations import PathError, local_path

KEYSTORE = "keystore_path"
_PARAMETERS = "ms.extract.preprocessor.parameters"
_PRIVATE_KEY = "source.conn.private.key"
_KNOWN_HOSTS = "source.conn.known.hosts"
_TLS = "ms.ssl"
# A key, and one that lost its first line, which must not be shown as a path.
_KEY_ITSELF = re.compile(r"PuTTY-User-Key-File|.*-----|[A-Za-z0-9+/=\s]{40,}$")
_LONGEST_PATH = 4096
_FIX = (
    "Correct the path; a relative one starts at the folder of the job file. Nothing is wrong if the"
    " file is on every machine that runs tasks."
)


def located(name: str, value: object, folder: Path) -> object:
    """Return the value of a property, absolute where it is the path of a key file.

    What begins with ``~`` stays: it is the home of the user that runs the task.
    """
    if name == _KNOWN_HOSTS and isinstance(value, str):
        return _absolute(value, folder)
    if name == _PRIVATE_KEY and isinstance(value, Secret) and _is_path(value.reveal()):
        return Secret(_absolute(value.reveal().strip(), folder))
    return value


def check_key_files(
    values: Properties, preprocessors: tuple[PreprocessorSpec, ...], findings: Findings
) -> None:
    """Name the key files that are not on this machine."""
    for key, where, path in _named(values, preprocessors):
        if not _is_there(path):
            findings.notice(key, f"{where}names {path}, which is not on this machine", _FIX)


def _named(
    values: Properties, preprocessors: tuple[PreprocessorSpec, ...]
) -> Iterator[tuple[str, str, str]]:
    """Yield the property, the member inside it and the path of each key file."""
    known_hosts = values.text(_KNOWN_HOSTS)
    if known_hosts:
        yield _KNOWN_HOSTS, "", known_hosts
    key = values.secret(_PRIVATE_KEY)
    if key and _is_path(key.reveal()):
        yield _PRIVATE_KEY, "", key.reveal()
    tls = values[_TLS]
    if isinstance(tls, TlsSettings):
        for member, path in (
            ("keyStorePath", tls.key_store_path),
            ("trustStorePath", tls.trust_store_path),
        ):
            if path:
                yield _TLS, f"{member} ", path
    for spec in preprocessors:
        given = spec.parameters.get(KEYSTORE, "")
        path = given.reveal() if isinstance(given, Secret) else given
        if path:
            yield _PARAMETERS, f'"{spec.name}": {KEYSTORE} ', path


def _is_path(text: str) -> bool:
    """Tell whether a text is the path of a key and not the key itself."""
    line = text.strip()
    if not line or "\n" in line or len(line) > _LONGEST_PATH:
        return False
    return _KEY_ITSELF.match(line) is None


def _absolute(text: str, folder: Path) -> str:
    if not text or text.startswith("~"):
        return text
    try:
        return str(local_path(text, folder))
    except PathError:
        return text  # no path that a task can open, which is told as one that is not there


def _is_there(path: str) -> bool:
    try:
        return Path(path).expanduser().is_file()
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a zero byte
        return False
