"""Which Spark sessions a run takes."""

from __future__ import annotations

import pytest

from dil.errors import ConfigError
from dil.execution.session import SparkSettings, spark_context


class GivenContext:
    """A SparkContext of the caller, of which only the settings are looked at."""

    def __init__(self, **settings: str) -> None:
        self._settings = {name.replace("__", "."): value for name, value in settings.items()}

    def getConf(self) -> dict[str, str]:  # noqa: N802 - pyspark's name
        return self._settings


@pytest.mark.parametrize("word", ["true", "TRUE"])
def test_a_session_that_runs_work_units_twice_at_once_is_refused(word: str) -> None:
    settings = SparkSettings("orders", 1, given=GivenContext(spark__speculation=word))

    with pytest.raises(ConfigError, match=r"spark\.speculation"), spark_context(settings):
        pytest.fail("it was used")
