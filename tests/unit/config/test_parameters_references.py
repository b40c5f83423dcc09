from pathlib import Path

import pytest

from dil import config
from dil.errors import ConfigError
from tests.jobs import write_job


def load(folder, parameters):
    job = write_job(Path(folder), "http://127.0.0.1:1", ms__parameters=parameters)
    return config.load(job, environ={}).job


def test_a_parameter_that_needs_its_own_value_is_refused(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, '[{"name":"q","value":"x {{q}}"}]')
    assert [problem.key for problem in caught.value.problems] == ["ms.parameters"]


def test_a_parameter_may_repeat_the_unit_that_gives_it_its_value(tmp_path):
    job = load(tmp_path, '[{"name":"unit","value":"{{unit}}"}]')
    assert job.extraction.parameters[0].value == "{{unit}}"
