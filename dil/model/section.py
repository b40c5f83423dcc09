"""Declares properties of a job file: each is one field of a section, with all its facts.

A section is a frozen dataclass of the properties that one part of the code reads. The fields of a
section carry the arguments of pydantic's ``Field`` as metadata, and pydantic finds them there when
the driver reads a job; parsing, defaults, the reference, ``dil explain``, the JSON Schema and the
digest follow from them. Nothing here imports pydantic: a section travels to tasks as the plain
value that it is.

    @dataclass(frozen=True, slots=True)
    class Cursor(Section):
        column: str = prop("ms.x.cursor.column", "Column that grows from row to row.", default="id")
        overlap_ms: Duration = prop(
            "ms.x.cursor.overlap", "How far to read back.", default=60_000, shown="PT1M"
        )
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias, cast, get_args

from dil.model.secret import Secret

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, ValidationInfo
    from pydantic_core import CoreSchema


# A path inside JSON with a dot for each level, the value in words, and its meaning.
MemberText: TypeAlias = tuple[str, str, str]


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
    DURATION_OR_OBJECT = "duration-iso or json-object"
    DATE_PATTERNS = "comma list of Joda patterns"
    ZONE = "zone id"
    CHARSET = "character set"
    OCTAL = "octal"
    RATE = "rate"

    @property
    def spans_lines(self) -> bool:
        """Return whether a value may continue over lines until its brackets balance."""
        return self.is_json or self.may_be_object

    @property
    def is_json(self) -> bool:
        """Return whether the value always is JSON."""
        return self in {ValueType.JSON_OBJECT, ValueType.JSON_ARRAY}

    @property
    def may_be_object(self) -> bool:
        """Return whether a value that begins with a brace is JSON."""
        return self in {ValueType.WORD_OR_OBJECT, ValueType.DURATION_OR_OBJECT}


class Support(StrEnum):
    """How this version treats a property.

    WORKS: the property has its effect. NO_EFFECT: the property is accepted and changes nothing, and
    a run says so if the job sets it. REFUSED: a value other than the default is an error; the
    meaning says what to use in its place. INTERNAL: only planning sets the property.
    """

    WORKS = "works"
    NO_EFFECT = "accepted, no effect"
    REFUSED = "refused"
    INTERNAL = "set by planning"


class Reported(Enum):
    """How a run says that a property has no effect.

    ALONE: in a notice of its own, because a user is likely to miss the effect. TOGETHER: in one
    line for all such properties. NEVER: people and ``${}`` read the property, as in DIL.
    """

    ALONE = "alone"
    TOGETHER = "together"
    NEVER = "never"


class Blank(Exception):  # noqa: N818 - says that nothing is there, which is no error
    """Raised by a reader for a text that counts as blank, such as an empty array."""


class Reader(Protocol):
    """Turns the text of a property into a value, on the driver."""

    def value(self, written: Written, type_: object, text: object) -> object:
        """Return the value of a text, in the type that ``written`` marks.

        Raises:
            ValueError: the text has no such value.
        """


@dataclass(frozen=True, slots=True)
class Written:
    """Marks the form in which a property is written; it annotates the type of the value.

    The words of an enum are ``words``, or the words of its type, a Literal or an enum of texts;
    they are read in any letter case. ``refused_words`` are values that Gobblin allows and DIL
    refuses. ``secret`` says that the whole value is a secret. ``read`` makes the value from the
    parsed text (for a JSON property: its JSON) and the context of the job. If ``read`` is None, the
    value is the parsed text, or the model that is the type of the field. An empty array or object
    counts as blank unless ``reads_empty``. ``members`` describes the members of JSON that is read
    without a model. ``plugin`` is the kind of plug-in class that the text names, as in
    ``dil.spi.registry``; empty if it names none. ``is_always_read`` says that also commands which
    do not connect to the source need the secret.
    """

    kind: ValueType
    words: tuple[str, ...] = ()
    refused_words: tuple[str, ...] = ()
    secret: bool = False
    read: Callable[..., object] | None = None
    reads_empty: bool = False
    members: tuple[MemberText, ...] = ()
    plugin: str = ""
    is_always_read: bool = False

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import PydanticUseDefault, core_schema

        del handler

        def read(text: object, info: ValidationInfo) -> object:
            try:
                return cast("Reader", info.context).value(self, source, text)
            except Blank as blank:
                raise PydanticUseDefault from blank

        return core_schema.with_info_plain_validator_function(read)


@dataclass(frozen=True, slots=True)
class StandsFor:
    """Marks special numbers that stand for other numbers, such as 0 for a default.

    The bounds apply to the other numbers.
    """

    numbers: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``count`` requests in every ``seconds`` seconds; both are at least 1."""

    count: int
    seconds: int

    @property
    def interval_s(self) -> float:
        """Return the time from one request to the next, in seconds."""
        return self.seconds / self.count

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds}s"


ONE_OF = Written(ValueType.ENUM)
Text: TypeAlias = Annotated[str, Written(ValueType.STRING)]
SecretText: TypeAlias = Annotated[Secret, Written(ValueType.STRING, secret=True)]
Int: TypeAlias = Annotated[int, Written(ValueType.INT)]
Long: TypeAlias = Annotated[int, Written(ValueType.LONG)]
Bool: TypeAlias = Annotated[bool, Written(ValueType.BOOL)]
ClassName: TypeAlias = Annotated[str, Written(ValueType.CLASS)]
ClassNames: TypeAlias = Annotated[tuple[str, ...], Written(ValueType.CLASS_LIST)]
Texts: TypeAlias = Annotated[tuple[str, ...], Written(ValueType.LIST)]
Regex: TypeAlias = Annotated[str, Written(ValueType.REGEX)]
UriTemplate: TypeAlias = Annotated[str, Written(ValueType.URI_TEMPLATE)]
FileSystemUri: TypeAlias = Annotated[str, Written(ValueType.FILE_SYSTEM)]
PathText: TypeAlias = Annotated[str, Written(ValueType.PATH)]
# Milliseconds.
Duration: TypeAlias = Annotated[int, Written(ValueType.DURATION)]
DatePatterns: TypeAlias = Annotated[tuple[str, ...], Written(ValueType.DATE_PATTERNS)]
Zone: TypeAlias = Annotated[str, Written(ValueType.ZONE)]
Charset: TypeAlias = Annotated[str, Written(ValueType.CHARSET)]
ModeBits: TypeAlias = Annotated[int, Written(ValueType.OCTAL)]
Rate: TypeAlias = Annotated[RateLimit, Written(ValueType.RATE)]


def prop(  # noqa: PLR0913 - all that there is to say of a property, by name
    name: str,
    meaning: str,
    *,
    default: Any = MISSING,  # as dataclasses.field has it
    default_factory: Any = MISSING,
    shown: str = "",
    example: str = "",
    aliases: tuple[str, ...] = (),
    required: bool = False,
    variables: bool = False,
    hidden_members: str = "",
    support: Support = Support.WORKS,
    reported: Reported = Reported.TOGETHER,
    identity: bool = True,
) -> Any:
    """Declare a property.

    Args:
        name: The property's key in job files.
        meaning: The property's meaning, in sentences, for the reference and ``dil explain``.
        default: The value of a property that is not written.
        default_factory: Makes a new default for each section.
        shown: The default as a job file would write it, if it differs from the value's text.
        example: A value as written after the ``=``, if default and words are no good example.
        aliases: Other keys with the same meaning.
        required: Whether a job without the property is refused; a required property has a default,
            too.
        variables: Whether ``{{name}}`` is replaced in the value.
        hidden_members: Which parts of a JSON value may be secrets, in words.
        support: How this version treats the property.
        reported: How a run says that the property has no effect.
        identity: Whether the value decides what is extracted or how it is written, so that it is
            part of the job's digest.
    """
    facts = {
        "shown": shown,
        "example": example,
        "aliases": aliases,
        "required": required,
        "variables": variables,
        "hidden_members": hidden_members,
        "support": support,
        "reported": reported,
        "identity": identity,
    }
    return field(
        default=default,
        default_factory=default_factory,
        metadata={"alias": name, "description": meaning, "json_schema_extra": facts},
    )


def no_effect(
    name: str,
    meaning: str,
    *,
    default: Any = "",
    hidden_members: str = "",
    reported: Reported = Reported.TOGETHER,
) -> Any:
    """Declare a property that is accepted and changes nothing, so that no digest contains it."""
    return prop(
        name,
        meaning,
        default=default,
        hidden_members=hidden_members,
        support=Support.NO_EFFECT,
        reported=reported,
        identity=False,
    )


def refused(name: str, meaning: str, *, default: Any = "", identity: bool = False) -> Any:
    """Declare a property of which only the default is accepted; the meaning says what to use."""
    return prop(name, meaning, default=default, support=Support.REFUSED, identity=identity)


def internal(name: str, meaning: str, *, default: Any = None, variables: bool = False) -> Any:
    """Declare a property that only planning sets."""
    return prop(
        name,
        meaning,
        default=default,
        variables=variables,
        support=Support.INTERNAL,
        identity=False,
    )


@dataclass(frozen=True, slots=True)
class Section:
    """Base of all sections."""

    def templates(self) -> Iterable[tuple[str, str]]:
        """Return the texts in which each request replaces variables, with their properties."""
        return ()


def property_name(declared: Field[Any]) -> str:
    """Return the job-file key of a section's field."""
    return str(declared.metadata["alias"])


def words_of(kind: object) -> tuple[str, ...]:
    """Return the words of a Literal or of an enum of texts."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return tuple(kind)
    return get_args(kind)
