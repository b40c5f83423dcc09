"""Print how much of the code of each room the tests ran: ``make coverage``.

The script reads the JSON report of coverage.py. The goal is only reported; it is no gate.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

GOAL = 95  # per cent of the branches of these rooms
ROOMS_WITH_GOAL = ("model", "planning", "config", "state")
COUNTS = ("num_branches", "covered_branches", "num_statements", "covered_lines")


def room_of(path: str) -> str:
    """Return the room of a file: ``state`` for dil/state/chain/x.py, ``api`` for dil/api.py."""
    return PurePosixPath(path).with_suffix("").parts[1]


def by_room(report: Path) -> dict[str, Counter[str]]:
    """Return for each room the sums of the counts of its files."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for path, file in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        rooms[room_of(path)].update({name: file["summary"][name] for name in COUNTS})
    return rooms


def per_cent(part: int, whole: int) -> str:
    """Return a share in per cent, with one digit behind the point."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def line(name: str, counts: Counter[str]) -> str:
    """Return one line of the table; a room below its goal says so."""
    share = per_cent(counts["covered_branches"], counts["num_branches"])
    missed = counts["num_branches"] - counts["covered_branches"]
    lines = per_cent(counts["covered_lines"], counts["num_statements"])
    note = ""
    if name in ROOMS_WITH_GOAL:
        is_below = 100 * counts["covered_branches"] < GOAL * counts["num_branches"]
        note = f"goal {GOAL} %, below it" if is_below else f"goal {GOAL} %"
    return f"{name:14}{share:>9}{missed:>8}{lines:>9}  {note}".rstrip()


def main(report: Path) -> None:
    """Print a line for each room, and a line for all rooms."""
    rooms = by_room(report)
    print(f"{'room':14}{'branches':>9}{'missed':>8}{'lines':>9}")
    for name in sorted(rooms):
        print(line(name, rooms[name]))
    print(line("all", sum(rooms.values(), Counter())))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
