"""The file for spark-submit: ``spark-submit [options] dil/submit.py JOB.conf [flags of dil run]``.

Does what ``dil run`` does, on the session that spark-submit configured. On a cluster the package
itself comes by ``--py-files`` or is installed there. Note that spark-submit in client mode prints
standard error on standard output too: for the JSON report give ``--report FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _make_importable() -> None:
    """Replace this file's folder on the import path by the one above it.

    Python puts a script's own folder first. Were that the package itself, ``import secrets`` in
    any library would find ``dil/secrets``.
    """
    if not (_HERE / "errors.py").is_file():
        return  # copied alone to a cluster node: the package comes by --py-files
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != _HERE]
    sys.path.insert(0, str(_HERE.parent))


if __name__ == "__main__":
    _make_importable()
    from dil.cli.main import main

    sys.exit(main(["run", *sys.argv[1:]]))
