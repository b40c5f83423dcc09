"""The body that a job writes as text: its checks, and its text in one request (docs/http.md)."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from connectors.http.section import HEADERS, HttpSection
from connectors.http.settings import WITH_BODY, holds_secret
from dil.errors import ConfigError, Problem
from dil.model.json import JsonValue
from dil.model.properties import Properties
from dil.model.secret import revealed
from dil.model.settings import flat_parameters
from dil.sections.http import BODY, METHOD, SendingSection
from dil.sections.parameters import PARAMETERS, ParametersSection
from dil.sections.secondary import SECONDARY, SecondarySection
from dil.sections.source import SourceSection
from dil.text.variables import Substituted, placeholders, substitute

FORM = "application/x-www-form-urlencoded"
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^"';\s]+)""", re.IGNORECASE)
_ENCODING = re.compile(r"""\s*<\?xml\b[^>]*\bencoding\s*=\s*["']([^"']+)""")
_CDATA = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)", re.DOTALL)


def media_type_of(content_type: str) -> str:
    """Return the media type of a Content-Type, in lower case and without parameters."""
    return content_type.partition(";")[0].strip().lower()


def render_body(
    text: str,
    content_type: str,
    variables: Mapping[str, JsonValue],
    declared: Collection[str],
) -> Substituted:
    """Return the body of one request, with its variables; a parameter without a value is empty.

    Values are escaped in XML and texts in JSON, so that they cannot become elements or members of
    the request.

    Raises:
        ConfigError: another variable has no value.
    """
    if not text:
        return substitute(text, {})
    given = {**dict.fromkeys(declared, ""), **variables}
    kind = media_type_of(content_type)
    if "json" in kind:
        given = {
            name: json.dumps(value, ensure_ascii=False)[1:-1] if isinstance(value, str) else value
            for name, value in given.items()
        }
    found = substitute(text, given, _in_xml if _is_xml(kind) else None)
    if found.missing:
        name = min(found.missing)
        raise ConfigError.single(
            BODY,
            f"needs {{{{{name}}}}}, which has no value in this request",
            "Give each unit this member, or declare a parameter of this name in ms.parameters.",
        )
    if kind.endswith("ndjson"):
        # There every line has an end; the job file's value has lost the last one.
        return replace(found, text=f"{found.text}\n")
    return found


def body_problems(properties: Properties) -> Iterator[Problem]:
    """Yield the reasons for which a body that the job writes as text cannot be sent."""
    http, sending = properties.section(HttpSection), properties.section(SendingSection)
    if not http.body:
        return
    written = [
        revealed(text) for name, text in http.headers.items() if name.lower() == "content-type"
    ]
    kinds = [media_type_of(text) for text in written]
    charsets = [charset for text in written for charset in _CHARSET.findall(text)]
    encoding = _ENCODING.match(http.body)
    in_cdata = placeholders("".join(_CDATA.findall(http.body)))
    problems = (
        (
            sending.method not in WITH_BODY,
            f"is set, and {METHOD} is {sending.method}, which has no body",
            f"Set {METHOD}=POST, or the method that the source expects.",
        ),
        (
            not kinds,
            f"is set, and {HEADERS} has no Content-Type",
            'Name the type of the text, such as {"Content-Type": "text/xml; charset=utf-8"}.',
        ),
        (
            FORM in kinds or (any(map(_is_json, kinds)) and _is_object(http.body)),
            "is set, and Content-Type says that the body is a JSON object or a form",
            "Declare the members of such a body in ms.parameters: then values need no escaping.",
        ),
        (
            not all(map(_is_utf_8, charsets)),
            "is sent in UTF-8, and Content-Type names another character set",
            "Write charset=utf-8 there, or leave the charset out.",
        ),
        (
            encoding is not None and not _is_utf_8(encoding[1]),
            "is sent in UTF-8, and its XML declaration names another encoding",
            'Write encoding="UTF-8" there.',
        ),
        (
            bool(in_cdata) and any(map(_is_xml, kinds)),
            f"uses {', '.join(in_cdata)} inside of CDATA, where values cannot be escaped",
            "Write the element without CDATA: DIL escapes values in XML.",
        ),
        (
            properties.section(SecondarySection).has_payload,
            f"is set, and {SECONDARY} has rows to send",
            "Leave it out: each row is sent as a JSON object or a form, with the parameters.",
        ),
    )
    for applies, what, fix in problems:
        if applies:
            yield Problem(properties.origin(BODY), BODY, what, fix)
    for name in _secrets_in_query(properties, http):
        yield Problem(
            properties.origin(PARAMETERS),
            PARAMETERS,
            f'"{name}" holds a secret, and neither {BODY} nor address or headers use it: it would'
            " go to the query, which servers and proxies log",
            f"Write {{{{{name}}}}} in the body or in a header. If only other parameters use it, let"
            " its name begin with tmp. Else leave it out.",
        )


def _secrets_in_query(properties: Properties, http: HttpSection) -> Iterator[str]:
    """Yield the parameters with a secret that would go to the query, because nothing uses them."""
    texts = [properties.section(SourceSection).uri, *(text for _, text in http.templates())]
    used = {name for text in texts for name in placeholders(text)}
    parameters = properties.section(ParametersSection).parameters
    secrets = {each.name for each in parameters if any(map(holds_secret, flat_parameters([each])))}
    for given in properties.section(SecondarySection).inputs:
        if given.is_opened:
            secrets.update(given.fields)
    for each in parameters:
        is_left = each.name not in used and not each.name.startswith("tmp")
        # Variables inside of the values of these variables are not filled in (rule G33).
        inside = (
            name for part in flat_parameters([each]) for name in placeholders(str(part.value))
        )
        if is_left and (each.name in secrets or not secrets.isdisjoint(inside)):
            yield each.name


def _is_xml(kind: str) -> bool:
    return kind.endswith(("/xml", "+xml"))


def _is_json(kind: str) -> bool:
    return kind.endswith(("/json", "+json"))


def _is_object(text: str) -> bool:
    """Return whether a body is one JSON object, whatever its variables are."""
    try:
        return isinstance(
            json.loads(substitute(text, dict.fromkeys(placeholders(text), 0)).text), dict
        )
    except ValueError:
        return False


def _is_utf_8(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name == "utf-8"
    except LookupError:
        return False


def _in_xml(text: str) -> str:
    # It imports urllib.request and ssl, which take a tenth of the time of a run with nothing due.
    from xml.sax.saxutils import escape

    return escape(text, {'"': "&quot;", "'": "&apos;"})
