"""What the property table says about one property."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ValueType(StrEnum):
    """How a property's text is read; the value is the word used in the documentation."""

    STRING = "string"
    INT = "int"
    LONG = "long"
    BOOL = "bool"
    ENUM = "enum"
    JSON_OBJECT = "json-object"
    JSON_ARRAY = "json-array"
    WORD_OR_OBJECT = "enum or json-object"
    CLASS = "class"
    CLASS_LIST = "class-list"
    LIST = "comma list"
    REGEX = "regex"
    URI_TEMPLATE = "uri-template"
    FILE_SYSTEM = "file system URI"
    PATH = "path"
    DURATION = "duration-iso"
    DATE_PATTERNS = "comma list of Joda patterns"
    ZONE = "zone id"
    CHARSET = "character set"
    OCTAL = "octal"
    RATE = "rate"

    @property
    def spans_lines(self) -> bool:
        """Tell whether a value may go on over lines until its brackets balance."""
        return self in {ValueType.JSON_OBJECT, ValueType.JSON_ARRAY, ValueType.WORD_OR_OBJECT}

    @property
    def is_json(self) -> bool:
        """Tell whether the value always is JSON."""
        return self in {ValueType.JSON_OBJECT, ValueType.JSON_ARRAY}


class Scope(StrEnum):
    """Where a property is read: once on the driver, by each work unit, or both."""

    JOB = "job"
    TASK = "task"
    BOTH = "both"


class Support(StrEnum):
    """What this version does with a property.

    WORKS: it has its effect. NO_EFFECT: accepted, changes nothing (spec README 16). LATER: a value
    other than the default is a "not supported yet" error. INTERNAL: set by planning only.
    """

    WORKS = "works"
    NO_EFFECT = "accepted, no effect"
    LATER = "not supported yet"
    INTERNAL = "set by planning"


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


@dataclass(frozen=True, slots=True)
class Group:
    """Properties that belong together; one section of the reference."""

    slug: str
    title: str
    properties: tuple[Property, ...]
