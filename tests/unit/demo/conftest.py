"""Puts the demo's folder on the import path: its programs are run as scripts, from there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "conf" / "demo"))
