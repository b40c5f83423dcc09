"""The preprocessor contract: bytes to bytes, between connector and extractor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, ClassVar

from dil.model.properties import Properties
from dil.spi.connector import PluginProperty


class Preprocessor(ABC):
    """A stream filter over each response. One instance serves one attempt."""

    properties: ClassVar[tuple[PluginProperty, ...]] = ()

    def __init__(self, properties: Properties) -> None:
        self.settings = properties

    @abstractmethod
    def process(self, stream: BinaryIO) -> BinaryIO:
        """Return a stream of the changed bytes; reads lazily, closes ``stream`` when closed."""
