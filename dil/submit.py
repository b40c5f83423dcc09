"""The file for spark-submit: ``spark-submit [options] dil/submit.py JOB.conf [flags of dil run]``.

This does what ``dil run`` does, on the session that spark-submit configured. On a cluster the
package itself comes by ``--py-files``, or is installed. Note that spark-submit in client mode
prints standard error on standard output, too: for the JSON report give ``--report FILE``.
"""

from __future__ import annotations

import os
import sys


def _make_importable() -> None:
    """Replace this file's folder on the import path by the one above it.

    Python puts a script's own folder first. If that folder is the package, any library that imports
    ``operator`` or ``secrets`` would find ``dil/operator`` or ``dil/secrets``. So before this call,
    only modules are imported that Python loads at its start.
    """
    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib imports operator
    if not os.path.isfile(os.path.join(here, "errors.py")):  # noqa: PTH113, PTH118 - as above
        return  # copied alone to a cluster node: the package comes by --py-files
    sys.path[:] = [each for each in sys.path if not each or os.path.realpath(each) != here]
    sys.path.insert(0, os.path.dirname(here))  # noqa: PTH120 - as above


if __name__ == "__main__":
    _make_importable()
    from dil.cli.main import main

    sys.exit(main(["run", *sys.argv[1:]]))
