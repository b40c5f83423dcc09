"""``python -m dil`` is ``dil``."""

from __future__ import annotations

from dil.safe_path import leave_working_directory

if __name__ == "__main__":
    leave_working_directory()
    import sys

    from dil.cli.main import main

    sys.exit(main())
