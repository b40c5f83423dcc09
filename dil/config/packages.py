"""Checks that an optional package is installed if a job needs it."""

from __future__ import annotations

from importlib.util import find_spec

from dil.config.findings import Findings


def require_package(package: str, extra: str, key: str, what: str, findings: Findings) -> None:
    """Refuse the value of a property if the package that it needs is not installed.

    ``what`` says what the value is. ``extra`` is the extra that installs the package.
    """
    if find_spec(package) is None:
        findings.problem(
            key,
            f"{what}, and the package {package} is not installed",
            f"Install it: pip install 'dil-spark[{extra}]'",
        )
