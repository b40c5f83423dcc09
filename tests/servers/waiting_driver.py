"""A process that carries out ``dil`` commands one after the other, on one session of Spark.

Most tests of whole runs are about rows, and the start of a driver with its JVM, its session and its
Python workers costs more than all else that they do. Here these are there before the command.
Drivers that are killed or stopped, and tests of the start itself, have a process of their own.

``python -m tests.servers.waiting_driver DESCRIPTOR`` reads an order from each line of its standard
input, and writes the answers to the descriptor.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from dil.secrets import masking
from tests.jobs import ROOT

# What a test sets for its own commands does not reach the session.
_ENVIRON = dict(os.environ)
_LIMIT_S = 300


@dataclass(frozen=True)
class Answer:
    """The outcome of one command."""

    code: int
    stdout: str
    stderr: str


class WaitingDriver:
    """Starts the process at the first command; it ends with the process of the tests."""

    def __init__(self) -> None:
        self._use = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._answers: Any = None

    def command(
        self, arguments: Sequence[str], environ: Mapping[str, str], *, module: str = "dil.cli"
    ) -> Answer:
        """Carry out ``python -m module arguments`` when commands of other threads are done."""
        order = {"module": module, "arguments": arguments, "environ": environ}
        with self._use:
            if self._process is None:
                self._process = self._started()
            limit = threading.Timer(_LIMIT_S, self._process.kill)
            limit.start()
            print(json.dumps(order), file=self._process.stdin, flush=True)
            line = self._answers.readline()
            limit.cancel()
            if not line:
                code = self._process.wait()
                self._process = None
                self._answers.close()
                raise RuntimeError(f"the driver ended with {code} in {module} {arguments}")
        return Answer(**json.loads(line))

    def _started(self) -> subprocess.Popen[str]:
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.waiting_driver", str(writing)],
            stdin=subprocess.PIPE, text=True, cwd=ROOT, env=_ENVIRON, pass_fds=[writing],
            start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        self._answers = os.fdopen(reading)
        return process


waiting_driver = WaitingDriver()


def main(answers: int) -> None:
    orders = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with os.fdopen(answers, "w") as output:
        for line in orders:
            order = json.loads(line)
            with _restored(order["environ"]):
                answer = _carried_out(order["module"], order["arguments"])
            print(json.dumps(answer), file=output, flush=True)


def _carried_out(module: str, arguments: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        with _redirected(1, stdout), _redirected(2, stderr):
            code = _code_of(module, arguments)
        texts = [_text(file) for file in (stdout, stderr)]
    return {"code": code, "stdout": texts[0], "stderr": texts[1]}


def _code_of(module: str, arguments: list[str]) -> int:
    sys.argv[1:] = arguments
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def _restored(environ: Mapping[str, str]) -> Iterator[None]:
    """Set variables for one command; forget afterwards what the process learned from the command.

    These are its variables, its secrets, and the modules that lie beside its job file.
    """
    before, path = {name: os.environ.get(name) for name in environ}, list(sys.path)
    os.environ.update(environ)
    # The interpreter reads this one only when it starts.
    sys.path.extend(filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    masking._learned[:] = [()]
    added = tuple(f"{folder}{os.sep}" for folder in sys.path if folder not in path)
    sys.path[:] = path
    for name, module in tuple(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(added):
            del sys.modules[name]


@contextlib.contextmanager
def _redirected(descriptor: int, file: IO[bytes]) -> Iterator[None]:
    """Redirect what this process and its children write to a descriptor."""
    before = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(before, descriptor)
        os.close(before)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


if __name__ == "__main__":
    main(int(sys.argv[1]))
