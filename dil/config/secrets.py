"""How a job's secrets are read: their properties, the master passwords, resolvers of references."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from dil.config.findings import RESOLVERS, Findings
from dil.config.inheritance import TrustedUsers, may_import
from dil.config.read_context import JobFileLocation
from dil.errors import PluginError, WriteError
from dil.model.section import ONE_OF, Bool, Int, PathText, Section, Texts, no_effect, prop
from dil.secrets import SecretResolver, master_password_files, read_master_passwords
from dil.spi.registry import PluginKind, is_own, join_import_path, load, resolve
from dil.spi.secret_resolver import ReferenceResolver, ResolverContext
from dil.storage import filesystem_for
from dil.storage.locations import any_path

_KEY_FILE = "encrypt.key.loc"
_KEY_FILE_FIX = "Name a file whose first line is the master password."
_RESOLVER_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")
_TAKEN_PREFIXES = frozenset({"env", "file"})
_RESOLVERS_FIX = "Write the name that a package offers, or prefix=package.module.Class."
_Manager = Annotated[
    Literal["com.linkedin.cdi.util.GobblinSecretManager", "GobblinSecretManager"], ONE_OF
]


@dataclass(frozen=True, slots=True)
class SecretsSection(Section):
    """How the secrets of a job file are decrypted; this section is read before all others."""

    manager_class: _Manager = no_effect(
        "ms.secret.manager.class",
        "DIL's class that decrypts `ENC(...)`. No class is needed here.",
        default="com.linkedin.cdi.util.GobblinSecretManager",
    )
    key_file: PathText = prop(
        _KEY_FILE,
        "File whose first line is the master password for `ENC(...)`; `dil secrets encrypt` writes "
        "such values. A relative path starts at the job file's folder.",
        default="",
        example="/etc/acme/master.key",
        identity=False,
    )
    is_strong: Bool = prop(
        "encrypt.use.strong.encryptor",
        "Reads DIL's `ENC(...)` as triple DES instead of DES. `ENC(v1:...)` itself names its "
        "cipher.",
        default=False,
        identity=False,
    )
    key_files: Annotated[Int, Ge(1)] = prop(
        "num.encrypt.keys",
        "How many master password files are tried: the path itself, then the path with `.1`, `.2` "
        "... appended; missing files are skipped.",
        default=2,
        identity=False,
    )
    resolvers: Texts = prop(
        RESOLVERS,
        "Resolvers of references with other prefixes than `env:` and `file:`, comma separated. "
        "Each is a name under which an installed package offers a class (`vault` for "
        "`vault:NAME`), or `prefix=package.module.Class` for a class of an installed package or of "
        "a module beside the job file.",
        default=(),
        example="vault, aws=acme.secrets.AwsSecrets",
        identity=False,
    )


def secret_resolver(
    section: SecretsSection,
    system: str,
    place: JobFileLocation,
    findings: Findings,
    *,
    needed: bool,
) -> SecretResolver:
    """Return the reader of secrets; unless ``needed`` is true, unreadable passwords give a notice.

    ``system`` is the file system of a path that names none.
    """
    passwords: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    is_unread = False
    if section.key_file:
        report = findings.problem if needed else findings.notice
        try:
            path = any_path(section.key_file, place.folder, system)
            opened = filesystem_for(path).open_input
            passwords = read_master_passwords(path, section.key_files, opened)
            if not passwords:
                missing = master_password_files(path, section.key_files)
                findings.notice(_KEY_FILE, f"names {path}, which does not exist", _KEY_FILE_FIX)
        except WriteError as error:  # file systems raise only this error
            is_unread = True
            report(_KEY_FILE, f"cannot be read: {error.message}", error.fix)
        except (OSError, ValueError) as error:
            is_unread = True
            reason = getattr(error, "strerror", None) or str(error)
            report(_KEY_FILE, f"cannot be read: {reason}", _KEY_FILE_FIX)
    plugged = _plugged_resolvers(
        section.resolvers,
        TrustedUsers(Path(place.path)),
        ResolverContext(place.environ, place.folder),
        findings,
    )
    return SecretResolver(
        place.environ,
        place.folder,
        passwords,
        section.is_strong,
        missing,
        is_unread=is_unread,
        plugged=plugged,
    )


def _plugged_resolvers(
    entries: Sequence[str], owners: TrustedUsers, context: ResolverContext, findings: Findings
) -> dict[str, ReferenceResolver]:
    """Return a job's resolvers by prefix; classes that are not found become findings.

    Classes are looked for in the installed packages. A class that is named by its Python path is
    also looked for in the folder of the job file, unless other users may have put the class there.

    Args:
        entries: Names that packages offer, or ``prefix=package.module.Class``.
        owners: The users whose files the job trusts.
        context: The context that each resolver gets.
        findings: Receives the problems.
    """
    named: dict[str, str] = {}
    for entry in entries:
        prefix, _, text = map(str.strip, entry.partition("="))
        if not _RESOLVER_PREFIX.fullmatch(prefix) or prefix in _TAKEN_PREFIXES:
            findings.problem(
                RESOLVERS, f'has "{entry}", whose prefix cannot be used', _RESOLVERS_FIX
            )
        elif prefix in named:
            findings.problem(RESOLVERS, f'names "{prefix}" twice', _RESOLVERS_FIX)
        else:
            named[prefix] = text or prefix
    if any(map(is_own, named.values())):
        if not may_import(context.folder, RESOLVERS, owners, findings):
            return {}
        join_import_path([str(context.folder)])
    found = {prefix: _resolver(text, context, findings) for prefix, text in named.items()}
    return {prefix: each for prefix, each in found.items() if each is not None}


def _resolver(text: str, context: ResolverContext, findings: Findings) -> ReferenceResolver | None:
    try:
        kind: type = load(resolve(PluginKind.RESOLVER, text, ReferenceResolver))
        made: ReferenceResolver = kind(context)
    except PluginError as error:
        for problem in error.problems:
            findings.problem(RESOLVERS, problem.what, problem.fix)
        return None
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
        # The message of a foreign exception may hold a secret of the environment.
        what = f'has "{text}", which cannot be created ({type(error).__name__})'
        findings.problem(
            RESOLVERS, what, "A resolver's constructor takes a context and does no I/O."
        )
        return None
    return made
