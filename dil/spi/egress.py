"""The interface between the loop that sends rows and the store of refused rows."""

from __future__ import annotations

from typing import Protocol

from dil.errors import RefusedAnswer
from dil.model.json import JsonObject


class RefusedSink(Protocol):
    """Keeps the payload of refused requests, so that the next row can be sent."""

    def keep(self, row: JsonObject, number: int, key: str, answer: RefusedAnswer) -> None:
        """Keep the row of a request; ``number`` counts requests from 1, ``key`` names the row.

        Raises:
            SourceContractError: the job allows fewer rows to be refused.
            WriteError: the row cannot be written.
        """
