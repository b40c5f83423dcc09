"""The members of JSON properties that are read without a model. Source: behaviour.md B3 to B10."""

from __future__ import annotations

from collections.abc import Mapping

# (member, value, meaning) of what is read without a model.
WITHOUT_MODEL: Mapping[str, tuple[tuple[str, str, str], ...]] = {}
