"""The parts of a job that checks compare with each other."""

from __future__ import annotations

from dataclasses import dataclass

from dil.model.job import (
    ClassRef,
    PlanningSpec,
    PublishingSpec,
    PublishMode,
    RunningSpec,
    StateSpec,
    WritingSpec,
)


@dataclass(frozen=True, slots=True)
class JobParts:
    """The parts of a job, and what they say together; ``converters`` are in their order."""

    planning: PlanningSpec
    writing: WritingSpec
    publishing: PublishingSpec
    state: StateSpec
    running: RunningSpec
    converters: tuple[ClassRef, ...]

    @property
    def is_dump(self) -> bool:
        """Return whether files are published as they are."""
        return bool(self.writing.file_name)

    @property
    def appends(self) -> bool:
        """Return whether each run only adds files."""
        return self.publishing.mode is PublishMode.APPEND and not self.is_dump

    @property
    def has_folder(self) -> bool:
        """Return whether the dataset has a folder below ``data.publisher.final.dir``."""
        return bool(self.publishing.dataset_path.strip("/"))

    @property
    def commits_pages(self) -> bool:
        """Return whether progress inside a work unit is kept."""
        return self.running.page_commit_s is not None

    @property
    def only_validates(self) -> bool:
        """Return whether the last converter judges the rows and passes none on."""
        return any(ref.qualname == "InFlowValidation" for ref in self.converters[-1:])
