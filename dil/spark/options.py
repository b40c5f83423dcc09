"""The options of ``format("dil")``.

Spark may put names into lower case. A name that is no option of the reader is a property of the
job, like ``-D`` in commands.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dil.errors import ConfigError
from dil.model.job import Job
from dil.model.messages import suggestion
from dil.run.process import real_clock
from dil.text.instants import InstantError, parse_instant

_OF_BOTH = ("columns", "now", "maxFilesPerTrigger")
_OF_CONF = ("conf", "from", "to", "history", "previewRows")
_OF_DATASET = (
    "dataset", "asOf", "startingOffset", "endingOffset", "maxRowsPerTrigger",
)  # fmt: skip
_KNOWN = {name.lower(): name for name in (*_OF_BOTH, *_OF_CONF, *_OF_DATASET)}
# Spark adds it if load() gets a path.
_PATH = "path"
_PREVIEW_ROWS = 1000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options of one ``format("dil")``.

    Either ``conf`` or ``dataset`` is the job file, and the other one is empty. ``now_ms`` (epoch ms
    UTC) is the moment when the frame is made. ``settings`` are properties of the job. ``values``
    are the other options by name.
    """

    conf: str
    dataset: str
    now_ms: int
    values: Mapping[str, str] = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Return the parsed options; keys may be in lower case.

        Raises:
            ConfigError: an option is unknown or has a wrong value, or not exactly one of ``conf``
                and ``dataset`` is given.
        """
        values, settings = dict[str, str](), dict[str, str]()
        for key, text in options.items():
            name = _KNOWN.get(key.lower())
            if name is None:
                settings[_property(key)] = text
            else:
                values[name] = text.strip()
        conf, dataset = values.get("conf", ""), values.get("dataset", "")
        if bool(conf) == bool(dataset):
            raise ConfigError.single(
                "conf",
                "and dataset are both given" if conf else "is missing, and dataset too",
                'Give .option("conf", "orders.conf") to read the source of a job, or'
                ' .option("dataset", "orders.conf") to read what it has published.',
            )
        strange = _OF_DATASET if conf else _OF_CONF
        for name in strange:
            if name in values:
                raise ConfigError.single(
                    name,
                    f"has no meaning with {'conf' if conf else 'dataset'}",
                    f"It belongs to {'dataset' if conf else 'conf'}: leave it out.",
                )
        clock = real_clock()
        now_ms = _instant("now", values["now"], clock) if "now" in values else clock
        return cls(conf, dataset, now_ms, values, settings)

    def load(self) -> Job:
        """Read the job file; runs on the driver's machine, in a process that Spark starts.

        Raises:
            ConfigError: the job file is wrong.
        """
        from dil import config  # executors have options, and load no job

        environ = dict(os.environ)  # noqa: TID251 - the environment of the driver is this one's
        path = self.conf or self.dataset
        loaded = config.load(
            path, overrides=self.settings, environ=environ, secrets=bool(self.conf)
        )
        return loaded.job

    def text(self, name: str) -> str:
        """Return an option as text; empty if it is not given."""
        return self.values.get(name, "")

    def number(self, name: str, *, least: int) -> int | None:
        """Return an option that is a whole number; None if it is not given.

        Raises:
            ConfigError: the option is no whole number, or is smaller than ``least``.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if found < least:
            raise ConfigError.single(
                name, f'is "{text}"', f"Write a whole number, {least} or more."
            )
        return found

    @property
    def preview_rows(self) -> int:
        """Return from how many rows the columns are inferred."""
        return self.number("previewRows", least=1) or _PREVIEW_ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns to read; empty for all of them."""
        return tuple(name.strip() for name in self.text("columns").split(",") if name.strip())

    @property
    def keeps_history(self) -> bool:
        """Return whether to plan only work units that are due for the next run.

        Raises:
            ConfigError: the option is not ``true`` or ``false``.
        """
        text = self.text("history").lower()
        if text not in {"", "true", "false"}:
            raise ConfigError.single("history", f'is "{text}"', "Write true or false.")
        return text == "true"

    def instant(self, name: str) -> int:
        """Return an option that is an instant as epoch ms UTC.

        Raises:
            ConfigError: the option is not an instant.
        """
        return _instant(name, self.text(name), self.now_ms)


def _instant(name: str, text: str, now_ms: int) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is not None and found.tzinfo is not None:
        return round(found.timestamp() * 1000)
    try:
        return parse_instant(text, now_ms=now_ms, end=True, zone="UTC").ms
    except InstantError as error:
        number = "the number of a block, as `dil state log` shows it, or " if name == "asOf" else ""
        raise ConfigError.single(
            name,
            f'is "{text}", which is no instant',
            f"Write {number}an instant: 2024-03-05T06:00:00Z, 2024-03-05, or P1D for a day ago.",
        ) from error


def _property(key: str) -> str:
    """Return the name of a property that Spark may have put into lower case.

    Raises:
        ConfigError: there is no such property, and no such option.
    """
    if key.lower() == _PATH:
        raise ConfigError.single(
            "load",
            "was given a path",
            'Name the job file with .option("conf", ...) or .option("dataset", ...).',
        )
    from dil.config.table import ALIASES, TABLE

    properties = {name.lower(): name for name in (*TABLE, *ALIASES)}
    found = properties.get(key.lower())
    if found is not None:
        return found
    if "." in key:
        return key  # a property of a plug-in, or a variable of the job file
    known = (*_KNOWN.values(), *properties.values())
    raise ConfigError.single(
        key, "is no option", suggestion(key, known) or f"Options are {', '.join(_KNOWN.values())}."
    )
