"""The property reference, generated from the table: ``python -m dil.config.docs FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from dil.config.canonical import DEPRECATED, MISSPELLED
from dil.config.explaining import bounds, secret_parts
from dil.config.property import Group, JsonMember, Property, form_of
from dil.config.table import GROUPS
from dil.model.section import Support

DEFAULT_TARGET = "docs/reference/properties.md"

_HEAD = """\
# Properties

Generated from the property table (`python -m dil.config.docs`); do not edit.

A property that is absent, empty or only white space has its default; so has a JSON property with an
empty array or object, unless its text says otherwise. *Refused* means that any value but the
default is an error, because a run that ignored it would do something else; the text of the property
says what to use. A run reports a set property that has *no effect*. A property marked *variables*
may hold `{{name}}`; a property marked *secret* may be `ENC(...)`, `env:NAME`, `file:PATH` or a
reference of `ms.secret.resolvers`. Keys that begin with `ms.x.` belong to classes of your own; any
other unknown key that begins with `ms.` is an error. Unknown keys without that prefix serve `${}`
only. `dil explain NAME` prints one entry.

## Files { #files }

- `.conf`, `.pull`, `.job` and `.properties` files are Java properties in UTF-8: `key=value`, `#`
  and `!` comments, a backslash at the end of a line continues it, `\\\\` means one backslash. A
  JSON value continues over the next lines until its brackets balance. `.yaml` and `.yml` files hold
  the same keys, nested at their dots or not, with lists and objects in place of JSON text.
- `include=PATH` inserts another file, relative to the including file, whose own keys win.
- A job inherits the one `.properties` file of its folder and of each folder above, up to the
  nearest folder that holds `.git` or `.dil-project`, else up to the root of the file system; nearer
  files win. `gradle.properties`, `log4j.properties` and `log4j2.properties` do not count. `dil
  validate` names each inherited file. A job file that is itself a `.properties` file inherits none
  from its own folder.
- `-D key=value` wins over everything; a blank value removes a setting.
- `${name}` is the value of another key, `${env:NAME}` of an environment variable, `${sys:NAME}` of
  a `-D` setting. `{{name}}` is left for run time.
- A path into a response or a row is JSONPath if it is `$` or begins with `$.` or `$[`; otherwise it
  is names with dots between them: see [paths](../paths.md).
- Relative paths start at the job file's folder; `file:///x` and `file://localhost/x` mean `/x`.
- JSON with single quotes, unquoted names, comments or trailing commas is read with a notice.
"""
_OLD_KEYS = """\
## Old keys { #old-keys }

An old key is read with a notice; an old and a new key with different values are an error.

| old | use |
|---|---|"""


def reference() -> str:
    """Return the whole reference as Markdown: one section per group, one anchor per property."""
    contents = "\n".join(f"- [{group.title}](#{group.slug})" for group in GROUPS)
    rows = []
    for name, replacement in DEPRECATED.items():
        member = f", member `{replacement.member}`" if replacement.member else ""
        target = "nothing" if replacement.use is None else f"`{replacement.use}`{member}"
        rows.append(f"| `{name}` | {target} |")
    rows += [f"| `{name}` | `{use}` (misspelled: an error) |" for name, use in MISSPELLED.items()]
    return "\n".join([_HEAD, f"{contents}\n", *map(_section, GROUPS), _OLD_KEYS, *rows, ""])


def main(arguments: list[str]) -> None:
    """Write the reference to the file of the first argument, or to its place in the repository."""
    target = Path(arguments[0] if arguments else DEFAULT_TARGET)
    target.write_text(reference(), "utf-8")


def _section(group: Group) -> str:
    rows = "\n".join(_row(entry) for entry in group.properties)
    return (
        f"## {group.title} {{ #{group.slug} }}\n\n"
        "| property | type | default | meaning |\n|---|---|---|---|\n"
        f"{rows}\n{''.join(_form(entry) for entry in group.properties)}"
    )


def _form(entry: Property) -> str:
    """Return the members of a JSON property and an example; empty text for other properties."""
    form = form_of(entry)
    if form is None:
        return ""
    name = entry.name
    rows = "".join(f"{_member_row(member)}\n" for member in form.members)
    head = "| member | value | default | meaning |\n|---|---|---|---|\n"
    table = f"{head}{rows}\n" if rows else ""
    return (
        f"\n### `{name}` {{ #{_form_anchor(name)} }}\n\n"
        f"{table}```properties\n{name}={form.example}\n```\n"
    )


def _form_anchor(name: str) -> str:
    return f"members-{name.replace('.', '-')}"


def _member_row(member: JsonMember) -> str:
    default = "**required**" if member.required else ""
    if member.default:
        default = f"`{_cell(member.default)}`"
    return f"| `{member.path}` | {member.value} | {default} | {_cell(member.meaning)} |"


def _row(entry: Property) -> str:
    name = f'<a id="{entry.name}"></a>`{entry.name}`'
    default = f"`{_cell(entry.default)}`" if entry.default else ""
    if entry.required:
        default = "**required**"
    limits = bounds(entry)
    kind = f"{entry.type.value}, {limits}" if limits else entry.type.value
    return f"| {name} | {kind} | {default} | {_cell(_meaning(entry))} |"


def _meaning(entry: Property) -> str:
    parts = [entry.meaning]
    if entry.words:
        parts.append(f"Words: {_listed(entry.words)}.")
    if entry.refused_words:
        parts.append(f"Refused: {_listed(entry.refused_words)}.")
    if entry.aliases:
        parts.append(f"Also written {_listed(entry.aliases)}.")
    if secret_parts(entry):
        parts.append(f"*Secret*: {secret_parts(entry)}.")
    if entry.variables:
        parts.append("*Variables*.")
    if form_of(entry) is not None:
        parts.append(f"[Members and an example](#{_form_anchor(entry.name)}).")
    if entry.support is not Support.WORKS:
        parts.append(f"**{entry.support.value.capitalize()}.**")
    return " ".join(parts)


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main(sys.argv[1:])
