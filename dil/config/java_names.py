"""Where DIL's and Gobblin's classes were before their packages were renamed."""

from __future__ import annotations

_OLD_PACKAGES = {"com.linkedin.dil.": "com.linkedin.cdi.", "gobblin.": "org.apache.gobblin."}


def current_name(text: str) -> str:
    """Return a Java class name of an old package under that of today, any other text as it is."""
    for old, new in _OLD_PACKAGES.items():
        if text.startswith(old):
            return new + text.removeprefix(old)
    return text
