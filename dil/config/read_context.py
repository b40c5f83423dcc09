"""The context of property readers: secrets, their resolvers, zone, folder, a place for notices."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge

from dil.config.findings import RESOLVERS, Findings
from dil.config.inheritance import TrustedUsers, may_import
from dil.errors import PluginError, WriteError
from dil.model.secret import Secret
from dil.model.section import ONE_OF, Bool, Int, PathText, Section, Texts, no_effect, prop
from dil.secrets import (
    SecretError,
    SecretResolver,
    is_encrypted,
    master_password_files,
    read_master_passwords,
)
from dil.sections.reading import ShapeError
from dil.spi.registry import PluginKind, is_own, join_import_path, load, resolve
from dil.spi.secret_resolver import ReferenceResolver, ResolverContext
from dil.storage import filesystem_for
from dil.storage.locations import PathError, any_path, local_path

_PASSWORD_IN_URL = re.compile(r"(?i)://[^/@\s]*:[^/@\s]+@|[?&;](?:password|pwd)=")
_KEY_FILE = "encrypt.key.loc"
_KEY_FILE_FIX = "Name a file whose first line is the master password."
_RESOLVER_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")
_TAKEN_PREFIXES = frozenset({"env", "file"})
_RESOLVERS_FIX = "Write the name that a package offers, or prefix=package.module.Class."
_Manager = Annotated[
    Literal["com.linkedin.cdi.util.GobblinSecretManager", "GobblinSecretManager"], ONE_OF
]


@dataclass(frozen=True, slots=True)
class JobFileLocation:
    """A job file's name as given, its absolute folder, and the environment."""

    path: str
    folder: Path
    environ: Mapping[str, str]


def _ignore(*_said: str) -> None:
    """Ignore a notice; ``at_entry`` gives the reader of a property another function."""


@dataclass(frozen=True, slots=True)
class JobReadContext:
    """The context of a property reader: secrets, the job's zone, a place for notices.

    ``file_system`` is the file system of paths that name none, empty for this machine. ``key`` is
    the property that is read; an ENC(v2:...) in it was encrypted for that key. ``plain`` is called
    if the property holds a secret in plain text.

    If ``needs_secrets`` is false, ENC(...) is not decrypted (decryption is slow on purpose), and no
    server is asked for a secret. A secret that cannot be read is then empty and gives a notice.
    """

    resolver: SecretResolver
    zone: str
    notice: Callable[[str, str], None] = _ignore
    needs_secrets: bool = True
    file_system: str = ""
    key: str = ""
    plain: Callable[[], None] = _ignore

    def secret(self, text: str, where: str = "", *, is_always_read: bool = False) -> Secret:
        """Return the secret that a text means; ``is_always_read`` decrypts it in any case.

        Raises:
            ShapeError: the secret cannot be resolved.
        """
        if not self.is_reference(text) and _is_written_out(self.key, text):
            if near := self.resolver.nearest_prefix(text):
                self.notice(
                    f'counts as a secret in plain text; its beginning is nearly "{near}:"',
                    f"Write {near}: for a reference, in lower case.",
                )
            else:
                self.plain()
        if self.resolver.is_unread and is_encrypted(text) and not is_always_read:
            return Secret("")  # another finding says why the secret is unread
        try:
            if self.needs_secrets or is_always_read or not self.resolver.is_costly(text):
                return self.resolver.resolve(text, self.key)
            self.resolver.check(text)
        except SecretError as error:
            what = f"{where} {error.what}".strip()
            if self.needs_secrets:
                raise ShapeError((what, error.fix)) from error
            self.notice(f"{what}; a run would refuse it", error.fix)
        return Secret("")

    def is_reference(self, text: str) -> bool:
        """Return whether a text refers to a secret, in any form that the job knows."""
        return self.resolver.is_reference(text)

    @property
    def folder(self) -> Path:
        """Return the folder where relative paths start."""
        return self.resolver.folder

    def local_path(self, text: str) -> str:
        """Return the absolute path of this machine that a text names."""
        return str(local_path(text, self.folder))

    def require_password(self, what: str) -> None:
        """Refuse a value that has to be encrypted if there is no master password.

        Raises:
            ShapeError: there is no master password; the message begins with ``what``. If secrets
                are not needed, a notice takes the place of the error.
        """
        if self.resolver.passwords or self.resolver.is_unread:
            return
        missing = " and ".join(self.resolver.missing)
        reason = f"{what}, and there is no master password"
        reason += f": {missing} cannot be found" if missing else ""
        fix = "Name the file that holds the master password in encrypt.key.loc."
        if self.needs_secrets:
            raise ShapeError((reason, fix))
        self.notice(f"{reason}; a run would refuse it", fix)


def _is_written_out(key: str, text: str) -> bool:
    """Return whether a text that is not a reference is a secret in plain form.

    Texts with variables, names of users and paths of keys are no secrets. A URL is a secret only if
    it has a password.
    """
    if not text or "{{" in text or key.endswith((".username", ".user")):
        return False
    if key.endswith((".url", ".uri")):
        return _PASSWORD_IN_URL.search(text) is not None
    return not (key.endswith(".key") and text.startswith(("/", "~")))


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
    plugged = plugged_resolvers(
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


def path_of(
    text: str, name: str, folder: Path, findings: Findings, *, system: str | None = None
) -> str:
    """Return the value of a path property as an absolute path; empty text if it is unset.

    If ``system`` is None, the path is on this machine. Else the path may be elsewhere, and then
    begins with scheme and authority; ``system`` is the file system of a path that names none.
    """
    if not text:
        return ""
    try:
        if system is None:
            return str(local_path(text, folder))
        return any_path(text, folder, system)
    except PathError as error:
        findings.problem(name, str(error), error.fix)
        return ""


def plugged_resolvers(
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
