"""What the property table says about one property."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dil.model.members import Setting
from dil.model.section import MemberText, Scope, Section, Support, ValueType

JsonModel: TypeAlias = type[Setting]


@dataclass(frozen=True, slots=True)
class Property:
    """One entry of the property table.

    ``default`` is text as it would be written in a job file, empty for none. ``low`` and ``high``
    are inclusive bounds of a number; ``special`` maps a number to the one that it stands for.
    ``words`` are the allowed words of an enum, read in any letter case; ``later_words`` are words
    that are valid and not supported yet. ``aliases`` are other spellings with the same meaning.
    ``variables`` tells that ``{{name}}`` is replaced in the value, ``secret`` that the whole value
    is a secret, ``hidden_members`` which parts of a JSON value are. ``identity`` tells that the
    value decides what is extracted or how it is written, so it is part of the job's digest.
    ``example`` is a value as it stands in a job file. Inside JSON stands what ``model`` says, or
    without one ``members``: their paths, values and meanings.
    """

    name: str
    type: ValueType
    meaning: str
    default: str = ""
    required: bool = False
    low: int | None = None
    high: int | None = None
    special: Mapping[int, int] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    later_words: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    scope: Scope = Scope.BOTH
    variables: bool = False
    secret: bool = False
    hidden_members: str = ""
    support: Support = Support.WORKS
    identity: bool = True
    example: str = ""
    model: JsonModel | None = None
    members: tuple[MemberText, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Properties that belong together; one section of the reference."""

    slug: str
    title: str
    properties: tuple[Property, ...]
    sections: tuple[type[Section], ...] = ()
