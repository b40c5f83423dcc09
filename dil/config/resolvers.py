"""``ms.secret.resolvers``: the classes that resolve the secret references of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dil.config.findings import RESOLVERS, Findings
from dil.config.inheritance import TrustedUsers, may_import
from dil.errors import PluginError
from dil.secrets.plugged import PluggedReferences
from dil.spi.registry import PluginKind, is_own, join_import_path, load, resolve
from dil.spi.secret_resolver import ReferenceResolver, ResolverContext

_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")
_TAKEN = frozenset({"env", "file"})
_FIX = "Write the name that a package offers, or prefix=package.module.Class."


def plugged_references(
    entries: Sequence[str], owners: TrustedUsers, context: ResolverContext, findings: Findings
) -> PluggedReferences:
    """Return the resolvers of a job's references; classes that are not found become findings.

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
        if not _PREFIX.fullmatch(prefix) or prefix in _TAKEN:
            findings.problem(RESOLVERS, f'has "{entry}", whose prefix cannot be used', _FIX)
        elif prefix in named:
            findings.problem(RESOLVERS, f'names "{prefix}" twice', _FIX)
        else:
            named[prefix] = text or prefix
    if any(map(is_own, named.values())):
        if not may_import(context.folder, RESOLVERS, owners, findings):
            return PluggedReferences()
        join_import_path([str(context.folder)])
    found = {prefix: _resolver(text, context, findings) for prefix, text in named.items()}
    return PluggedReferences({prefix: each for prefix, each in found.items() if each is not None})


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
