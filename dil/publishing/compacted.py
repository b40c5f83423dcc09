"""Files that hold rows of several work units: put together by ``dil compact``, or by a merge."""

from __future__ import annotations

from collections.abc import Iterable

from dil.errors import ConfigError
from dil.model.dataset import Commit, PublishedFile
from dil.model.job import PublishingSpec, PublishMode

VERB = "compact"


def is_of_many(file: PublishedFile) -> bool:
    """Return whether a file of ours holds rows that were put together from several work units."""
    return bool(file.run_id) and not file.signature


def is_compaction(commit: Commit) -> bool:
    """Return whether a commit puts files together: then it is all of it, or nothing."""
    return commit.act is not None and commit.act.verb == VERB


def refuse_window_replace(spec: PublishingSpec, live: Iterable[PublishedFile]) -> None:
    """Refuse to replace the files of one work unit where its rows are among others'.

    Raises:
        ConfigError: the mode was another one when files were put together.
    """
    if spec.mode is not PublishMode.WINDOW_REPLACE:
        return
    mixed = next((file for file in live if is_of_many(file)), None)
    if mixed is not None:
        raise ConfigError.single(
            "ms.publish.mode",
            f"is {spec.mode}, and {mixed.uri} holds rows of several work units, which a merge or"
            " `dil compact` put together under another mode: rows that are read again would be"
            " there twice",
            "Keep the mode as it was, or read everything anew once with ms.publish.mode=replace.",
        )
