"""The master passwords of ``ENC(...)``: their properties, and what secrets are read with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from dil.config.findings import Findings
from dil.config.surroundings import Place
from dil.errors import WriteError
from dil.model.section import (
    ONE_OF,
    Bool,
    Int,
    PathText,
    Section,
    Support,
    prop,
)
from dil.secrets import SecretResolver, master_password_files, read_master_passwords
from dil.storage import filesystem_for
from dil.storage.locations import any_path

_KEY_FILE = "encrypt.key.loc"
_KEY_FILE_FIX = "Name a file whose first line is the master password."
_Manager = Annotated[
    Literal["com.linkedin.cdi.util.GobblinSecretManager", "GobblinSecretManager"], ONE_OF
]


@dataclass(frozen=True, slots=True)
class SecretsSection(Section):
    """How secrets of a job file are opened; it is read before all other sections."""

    manager_class: _Manager = prop(
        "ms.secret.manager.class",
        "DIL's class that reads `ENC(...)`; it is read here without one.",
        default="com.linkedin.cdi.util.GobblinSecretManager",
        support=Support.NO_EFFECT,
        identity=False,
    )
    key_file: PathText = prop(
        "encrypt.key.loc",
        "File whose first line is the master password for `ENC(...)`; `dil secrets encrypt` "
        "writes them. A relative path starts at the job file's folder.",
        default="",
        example="/etc/acme/master.key",
        identity=False,
    )
    is_strong: Bool = prop(
        "encrypt.use.strong.encryptor",
        "Reads DIL's `ENC(...)` as triple DES instead of DES. `ENC(v1:...)` says by itself how "
        "it is read.",
        default=False,
        identity=False,
    )
    key_files: Annotated[Int, Ge(1)] = prop(
        "num.encrypt.keys",
        "How many master password files are tried: the path itself, then `.1`, `.2` ... "
        "appended; missing ones are skipped.",
        default=2,
        identity=False,
    )


def secret_resolver(
    section: SecretsSection, system: str, place: Place, findings: Findings, *, needed: bool
) -> SecretResolver:
    """Return what reads secrets; passwords that cannot be read are a notice unless ``needed``.

    ``system`` is the file system of a path that names none.
    """
    passwords: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    if section.key_file:
        report = findings.problem if needed else findings.notice
        try:
            path = any_path(section.key_file, place.folder, system)
            opened = filesystem_for(path).open_input
            passwords = read_master_passwords(path, section.key_files, opened)
            if not passwords:
                missing = master_password_files(path, section.key_files)
                findings.notice(_KEY_FILE, f"names {path}, which does not exist", _KEY_FILE_FIX)
        except WriteError as error:  # the seam to file systems knows no other
            report(_KEY_FILE, f"cannot be read: {error.message}", error.fix)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            report(_KEY_FILE, f"cannot be read: {reason}", _KEY_FILE_FIX)
    return SecretResolver(place.environ, place.folder, passwords, section.is_strong, missing)
