"""``python -m dil.cli`` is ``dil``."""

from __future__ import annotations

import sys

from dil.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
