"""The seam between the loop that sends rows and the place where refused ones are kept."""

from __future__ import annotations

from typing import Protocol

from dil.errors import RefusedAnswer
from dil.model.json import JsonObject


class RefusedSink(Protocol):
    """Where the payload of a refused request is left, so that the next row can be sent."""

    def keep(self, row: JsonObject, number: int, key: str, answer: RefusedAnswer) -> None:
        """Keep what a request carried; ``number`` counts requests from 1, ``key`` names the row.

        Raises:
            SourceContractError: the job allows fewer rows to be refused.
            WriteError: it cannot be written.
        """
