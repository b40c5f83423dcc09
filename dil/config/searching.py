"""Finds properties by words of their texts, also properties of plug-ins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dil.config.json_forms import form_of
from dil.config.property import Property, properties_of
from dil.config.table import PLUGIN_PREFIX, TABLE, group_of
from dil.errors import ConfigError
from dil.model.json import JsonObject
from dil.model.suggestions import suggestion
from dil.spi.connector import PluginProperty
from dil.spi.registry import PluginKind, installed_classes

_NO_PLUGIN = (
    "Names that begin with ms.x. belong to classes of your own. Give a job that names the class: "
    "dil explain NAME --job JOB.conf"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A property outside the reference, or a property that a search found.

    ``whose`` names the class that declares the property, empty for a property of the reference.
    """

    name: str
    meaning: str
    default: str = ""
    whose: str = ""
    text: str = ""

    @property
    def line(self) -> str:
        """Return the first sentence of the property's meaning."""
        return f"{self.meaning.partition('. ')[0].rstrip('.')}."

    def json(self) -> JsonObject:
        """Return the value as JSON members."""
        return {
            "property": self.name,
            "meaning": self.meaning,
            "default": self.default or None,
            "of": self.whose or None,
        }

    def __str__(self) -> str:
        facts = [self.meaning, f"default: {self.default or 'none'}", self.whose]
        return "\n".join([self.name, *(f"    {fact}" for fact in facts if fact)])


def elsewhere(name: str, classes: Iterable[type] = ()) -> Found | None:
    """Return a property that an installed plug-in, or one of these classes, declares.

    Raises:
        ConfigError: the name begins like a plug-in's, and no class declares it.
    """
    found = {each.name: each for each in _of_classes(classes)}
    if name not in found and name.startswith(PLUGIN_PREFIX):
        found |= {each.name: each for each in _of_classes(_installed())}
        if name not in found:
            known = suggestion(name, found)
            raise ConfigError.single(name, "is declared by no class", known or _NO_PLUGIN)
    return found.get(name)


def search(text: str, classes: Iterable[type] = ()) -> tuple[Found, ...]:
    """Return the properties with all words of a text; properties with matching names come first."""
    words = text.lower().split()
    every = (*_of_reference(), *_of_classes((*classes, *_installed())))
    found = dict.fromkeys(each for each in every if _has(f"{each.name} {each.text}", words))
    return tuple(sorted(found, key=lambda each: not _has(each.name, words)))


def _has(text: str, words: Iterable[str]) -> bool:
    lower = text.lower()
    return all(word in lower for word in words)


def _of_reference() -> Iterator[Found]:
    for name, entry in TABLE.items():
        yield _found(entry, "", " ".join((*entry.aliases, *_members(entry), group_of(name).title)))


def _of_classes(classes: Iterable[type]) -> Iterator[Found]:
    for each in dict.fromkeys(classes):
        whose = f"of {each.__module__}:{each.__qualname__}"
        declared: Iterable[PluginProperty] = getattr(each, "properties", ())
        for one in declared:
            default = "" if one.default is None or one.secret else str(one.default)
            yield Found(one.name, one.meaning, default, whose, one.meaning)
        for section in getattr(each, "sections", ()):
            for entry in properties_of(section):
                if entry.name not in TABLE:
                    yield _found(entry, whose)


def _installed() -> Iterator[type]:
    for kind in PluginKind:
        yield from installed_classes(kind)


def _found(entry: Property, whose: str, more: str = "") -> Found:
    return Found(entry.name, entry.meaning, entry.default, whose, f"{entry.meaning} {more}")


def _members(entry: Property) -> Iterator[str]:
    form = form_of(entry)
    for member in form.members if form else ():
        yield f"{member.path} {member.meaning}"
