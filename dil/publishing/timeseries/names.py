"""Names the parts of a timeseries table (rule T19)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from dil.publishing.warehouse.dialect import TableName

LABEL = "_timelabel"
# The shortest limit among the databases for a name, in bytes.
_NAME_BYTES = 63
_OLD_OF_RUN = re.compile(r"(\d{14})_o(\d+)_[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of tables that belong to the table ``base``.

    New tables that are not shown yet have short names: PostgreSQL would cut names that are longer
    than a label's table name, and two cut names could become equal.
    """

    base: TableName

    @property
    def view(self) -> TableName:
        """Return the view of all labels."""
        return self.of(f"{self.base.name}_view")

    def label(self, label: str) -> TableName:
        """Return the table of a label."""
        return self.of(f"_{self.base.name}_{label}")

    def attempt(self, label: str, number: int) -> TableName:
        """Return the table into which an attempt loads a label."""
        return self.of(f"{self._short}_{label}_a{number}")

    def old(self, label: str, number: int, run_id: str = "") -> TableName:
        """Return the name of a label's old table after an attempt of a run replaced it."""
        run = f"_{hashlib.sha256(run_id.encode()).hexdigest()[:8]}" if run_id else ""
        return self.of(f"{self.making}{label}_o{number}{run}")

    @property
    def making(self) -> str:
        """Return the common beginning of the names of tables that are not shown yet."""
        return f"{self._short}_"

    def old_parts(self, name: str) -> tuple[str, int] | None:
        """Return label and attempt of a name that ``old`` made for a run, None for other names."""
        found = _OLD_OF_RUN.fullmatch(name.removeprefix(self.making))
        return None if found is None else (found[1], int(found[2]))

    def next_base(self) -> TableName:
        """Return the table that will replace the base."""
        return self.of(f"{self._short}_next")

    def compacted(self, first: str, last: str, number: int = 1) -> TableName:
        """Return the table of many labels; a number distinguishes tables with the same labels."""
        span = f"{first}_{last}{'' if number == 1 else f'_{number}'}"
        name = f"_{self.base.name}_{span}"
        is_short = len(name.encode()) <= _NAME_BYTES
        return self.of(name if is_short else f"{self._short}_{span}")

    def of(self, name: str) -> TableName:
        """Return the full name of a table in the schema of the base."""
        return TableName(self.base.schema, name)

    @property
    def _short(self) -> str:
        return f"_dil_{hashlib.sha256(self.base.name.encode()).hexdigest()[:12]}"
