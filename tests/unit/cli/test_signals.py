"""The first signal unwinds, the second ends the process."""

import signal
import subprocess
import sys
import threading

import pytest

from dil.cli.signals import Interruption, interruptible

pytestmark = pytest.mark.usefixtures("sigint_is_heeded")

TWICE = """
import signal
from dil.cli.signals import interruptible

with interruptible():
    try:
        signal.raise_signal(signal.{first})
    except KeyboardInterrupt:
        signal.raise_signal(signal.{second})
        print("still here")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_becomes_an_error_with_its_exit_code(number: signal.Signals, code: int) -> None:
    with pytest.raises(Interruption) as caught, interruptible():
        signal.raise_signal(number)

    assert caught.value.exit_code == code
    assert str(caught.value) == f"stopped by {number.name}"


def test_an_interruption_is_no_exception_that_a_library_would_swallow() -> None:
    assert not issubclass(Interruption, Exception)


@pytest.mark.parametrize(
    ("first", "second", "code"), [("SIGINT", "SIGINT", 130), ("SIGINT", "SIGTERM", 143)]
)
def test_a_second_signal_ends_the_process_at_once(first: str, second: str, code: int) -> None:
    script = TWICE.format(first=first, second=second)

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (code, "")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_no_handlers() -> None:
    seen: list[object] = []

    def act() -> None:
        with interruptible():
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()

    assert seen == [before]


@pytest.mark.parametrize("module", ["click", "dil.cli.program", "dil.run.exit_codes"])
def test_an_interruption_of_the_first_imports_is_one_line(module: str) -> None:
    code = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from dil.cli.main import main
sys.exit(main(["--version"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "stopped by SIGINT before anything was done  [DIL-INTERRUPTED]\n"
