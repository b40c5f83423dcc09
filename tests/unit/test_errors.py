"""The tree of errors: what its text says is what there is, and all of it survives pickling."""

import inspect
import pickle
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from dil import errors
from dil.errors import (
    AuthenticationError,
    ConfigError,
    DilError,
    Origin,
    Problem,
    RunInterruptedError,
    SourceContractError,
    TransientSourceError,
    lasting,
)
from dil.run.exit_codes import INTERNAL, code_of

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, DilError)
]
TREE = re.compile(r"^ {4}([│├└─ ]*)(\w+Error) +(DIL-[A-Z-]+)  ", re.MULTILINE)


def drawn() -> Iterator[tuple[str, str, str]]:
    """Yield each line of the drawn tree: class, parent, code."""
    above: list[str] = []
    for bars, name, code in TREE.findall(errors.__doc__ or ""):
        del above[len(bars) // 4 :]
        yield name, above[-1] if above else "Exception", code
        above.append(name)


def example(kind: type[DilError]) -> DilError:
    """Return an error of a class with every one of its arguments given."""
    if issubclass(kind, ConfigError):
        return kind([Problem(Origin("a.conf", 3), "ms.x", "is wrong", "mend it"),
                     Problem(None, "", "no place")])  # fmt: skip
    if kind is TransientSourceError:
        return TransientSourceError("busy", "wait", 7.5)
    if kind is RunInterruptedError:
        return RunInterruptedError("stopped", "again", 143)
    return kind("what", "fix")


def test_the_drawn_tree_is_the_tree() -> None:
    real = {(kind.__name__, kind.__bases__[0].__name__, kind.code) for kind in CLASSES}
    assert set(drawn()) == real


def test_every_code_belongs_to_one_class() -> None:
    counts = Counter(kind.code for kind in CLASSES)
    assert [code for code, count in counts.items() if count > 1] == []
    assert INTERNAL not in counts
    assert INTERNAL in (errors.__doc__ or "")
    assert code_of(ZeroDivisionError()) == INTERNAL


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_survives_pickling_with_all_it_says(kind: type[DilError]) -> None:
    error = example(kind)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert vars(copy) == vars(error)
    assert (str(copy), copy.args, copy.code) == (str(error), error.args, error.code)


@pytest.mark.parametrize("kind", [SourceContractError, TransientSourceError, RunInterruptedError])
def test_a_text_that_a_source_cut_inside_a_character_can_be_written_anywhere(
    kind: type[DilError],
) -> None:
    error = kind("no caf\ud83d", "ask \ude00")
    assert (error.message, error.fix) == ("no caf\\ud83d", "ask \\ude00")
    assert str(error).encode()
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_a_plug_in_may_give_an_exception_as_the_text() -> None:
    error = AuthenticationError(OSError("no login"), None)  # type: ignore[arg-type]
    assert str(error) == "no login  [DIL-SRC-AUTH]"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_that_lasts_is_no_longer_retryable_on_the_other_side() -> None:
    error = lasting(SourceContractError("two pages are the same"))
    assert not pickle.loads(pickle.dumps(error)).retryable
    assert SourceContractError("half a page").retryable


def test_every_class_that_takes_more_than_message_and_fix_is_among_the_examples() -> None:
    special = {kind for kind in CLASSES if "__init__" in vars(kind)} - {DilError}
    assert special == {ConfigError, TransientSourceError, RunInterruptedError}
