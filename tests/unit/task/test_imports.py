"""What a task imports: nothing that only reading a job file needs."""

from __future__ import annotations

import subprocess
import sys


def test_tasks_do_not_import_pydantic() -> None:
    code = (
        "import sys, dil.task.work_unit, connectors.http.connector, connectors.jdbc.connector\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
