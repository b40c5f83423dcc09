"""An example of each JSON property, as it stands behind the ``=`` in a job file.

A test loads them all in one job, so they also show how the properties go together.
"""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {}
