"""Refuses a first line that is no header: a file without its header begins with a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dil.errors import SourceContractError, lasting
from dil.extraction.excerpt import bracketed_form
from dil.model.suggestions import nearest_word


def refuse_other_header(header: Sequence[str], known: Collection[str], whose: str) -> None:
    """Raise if a header has no known column and no name that resembles one.

    Letter case does not count. ``whose`` names the origin of the known columns for the message.

    Raises:
        SourceContractError: the line is probably not a header. The message shows the line with its
            letters and digits replaced, because it may be a row.
    """
    names = [name for name in header if name]
    there = {name.lower() for name in names}
    if not names or not known or any(name.lower() in there for name in known):
        return
    if any(nearest_word(name, names) for name in known):
        return  # The header has a column under a new or misspelled name.
    form = bracketed_form(",".join(header)).strip(" ()")
    error = SourceContractError(
        f"the header line has none of the columns of {whose}; it looks like {form} (9 means a"
        " digit, a means a letter)",
        "If the file came without its header line, ask the source for one, or leave"
        " columnHeaderIndex out of ms.csv and describe the columns in ms.output.schema. If the"
        " line is the header, name its columns in ms.output.schema, or check columnHeaderIndex"
        " and fieldSeparator of ms.csv.",
    )
    raise lasting(error)
