"""Options of ``format("dil")``: Spark may have put their names into lower case."""

import pytest

from dil.errors import ConfigError
from dil.spark.options import SourceOptions

CONF = {"conf": "orders.conf"}
DATASET = {"dataset": "orders.conf"}


def problem_of(options: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.of(options)
    (problem,) = caught.value.problems
    return f"{problem.key} {problem.what} {problem.fix}"


def test_a_property_gets_its_upper_case_back_and_others_are_kept() -> None:
    options = SourceOptions.of(
        {**CONF, "ms.secondary.input": "[]", "MS.JDBC.Statement": "x", "ms.x.own.Thing": "1"}
    )

    assert options.settings == {
        "ms.secondary.input": "[]", "ms.jdbc.statement": "x", "ms.x.own.Thing": "1",
    }  # fmt: skip
    assert SourceOptions.of({**CONF, "taskexecutor.threadpool.size": "1"}).settings == {
        "taskexecutor.threadpool.size": "1"
    }


def test_options_are_read_by_their_lower_case_names() -> None:
    options = SourceOptions.of(
        {
            **DATASET,
            "asof": "3",
            "startingoffset": " 7 ",
            "columns": "b, a",
            "now": "1970-01-01T00:00:02Z",
        }
    )

    assert options.text("asOf") == "3"
    assert options.number("startingOffset", least=-1) == 7
    assert options.columns == ("b", "a")
    assert options.now_ms == 2000
    assert SourceOptions.of({**CONF, "now": "1970-01-01 00:00:02UTC"}).now_ms == 2000


def test_one_of_conf_and_dataset_is_needed() -> None:
    assert "is missing" in problem_of({})
    assert "are both given" in problem_of({**CONF, **DATASET})


def test_an_option_of_the_other_kind_is_refused() -> None:
    assert problem_of({**CONF, "asOf": "3"}).startswith("asOf has no meaning with conf")
    assert problem_of({**DATASET, "history": "true"}).startswith("history has no meaning")


def test_an_unknown_option_is_answered_with_the_nearest_one() -> None:
    assert 'Did you mean "asOf"?' in problem_of({**DATASET, "asoff": "3"})
    assert "was given a path" in problem_of({"path": "orders.conf"})


@pytest.mark.parametrize("text", ["x", "-2", "1.5"])
def test_a_number_is_one(text: str) -> None:
    options = SourceOptions.of({**DATASET, "startingOffset": text})

    with pytest.raises(ConfigError):
        options.number("startingOffset", least=-1)


def test_an_instant_is_one_and_as_of_may_also_be_the_number_of_a_block() -> None:
    with pytest.raises(ConfigError, match="Write the number of a block") as error:
        SourceOptions.of({**DATASET, "asOf": "last"}).instant("asOf")
    assert "2024-03-05T06:00:00Z" in str(error.value)
    assert "Write an instant" in problem_of({**CONF, "now": "noon"})


def test_values_are_in_no_text_of_the_options() -> None:
    assert "hunter2" not in repr(SourceOptions.of({**CONF, "ms.authentication": "hunter2"}))
