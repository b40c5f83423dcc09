"""Secondary input: the output of earlier jobs as units, variables and payload."""

from dil.extraction.secondary.entry import SecondaryAccess
from dil.extraction.secondary.inputs import (
    read_activation,
    read_authentication,
    read_payload,
    read_secondary_inputs,
    read_validation,
)

__all__ = [
    "SecondaryAccess",
    "read_activation",
    "read_authentication",
    "read_payload",
    "read_secondary_inputs",
    "read_validation",
]
