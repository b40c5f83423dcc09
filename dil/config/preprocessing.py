"""Preprocessors: their properties, and the names and permissions of dumped files.

See docs/preprocessors.md, rule U6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from annotated_types import Ge

from dil.config.findings import Findings
from dil.errors import PluginError
from dil.model.job import ExpansionSpec, PreprocessorSpec
from dil.model.json import JsonValue, as_text
from dil.model.messages import suggestion
from dil.model.properties import Properties
from dil.model.secret import Secret, revealed
from dil.model.section import Int, Long, Section, ValueType, Written, prop
from dil.sections.extraction import DumpSection, ExtractionSection
from dil.sections.reading import ReadContext, ShapeError, as_object, is_scalar, note_missing
from dil.spi.preprocessor import Preprocessor
from dil.spi.registry import PluginKind, is_built_in, known_name, load, resolve, simple_name
from dil.storage.locations import PathError, local_path

PREPROCESSORS = "ms.extract.preprocessors"
_PARAMETERS = "ms.extract.preprocessor.parameters"
KEYSTORE = "keystore_path"
_GPG = "GpgProcessor"
_SECRET = re.compile(r"passw|passphrase|secret|token", re.IGNORECASE)
_MEMBERS = (
    ("(preprocessor)", "object of texts", "Named as in `ms.extract.preprocessors`."),
    (
        "(preprocessor).keystore_path",
        "text",
        "GPG: key file, with secret keys to decrypt or public keys to encrypt. A relative path "
        "starts at the folder of the job file.",
    ),
    (
        "(preprocessor).keystore_password",
        "text, may be a secret",
        "GPG: pass phrase of the secret key; without a key file, pass phrase of the message.",
    ),
    ("(preprocessor).key_name", "text", "GPG encryption: id of the key to encrypt for."),
    (
        "(preprocessor).cipher",
        "text",
        "GPG encryption: symmetric cipher; CAST5 if left out.",
    ),
    (
        "(preprocessor).action",
        "encrypt, decrypt",
        "Whether the name `GpgProcessor` means encryption or decryption.",
    ),
    ("(preprocessor).member", "text", "zip, tar: Java expression for the one file inside."),
    ("(preprocessor).header", "text", "aggregated-json: path of the column names."),
    ("(preprocessor).data", "text", "aggregated-json: path of the rows, arrays of values."),
    ("(preprocessor).unwrap", "text", "aggregated-json: path that is followed first."),
    ("(preprocessor).fields", "text", "aggregated-json: paths, comma separated, to copy."),
    ("(preprocessor).short_rows", "text", "aggregated-json: `null` if rows may end early."),
)
_EXAMPLE = """\
{"gpg-decrypt": {"keystore_path": "/secure/acme/secring.gpg"},
 "zip": {"member": ".*[.]csv"}}"""


def _parameters(value: JsonValue, around: ReadContext) -> dict[str, dict[str, str | Secret]]:
    """Return the parameters of each preprocessor; secret ones as Secret."""
    found: dict[str, dict[str, str | Secret]] = {}
    for name, members in as_object(value).items():
        found[name] = {}
        for member, item in as_object(members, f'"{name}"').items():
            where = f'"{name}": {member}'
            if item is None:
                continue
            if not is_scalar(item):
                raise ShapeError((f"{where} is no text", "Write a text, a number or a boolean."))
            text = as_text(item)
            if member == KEYSTORE:
                found[name][member] = _key_file(text, where, around)
                continue
            is_secret = around.is_reference(text) or _SECRET.search(member)
            found[name][member] = around.secret(text, where) if is_secret else text
    return found


def _key_file(text: str, where: str, around: ReadContext) -> str | Secret:
    """Return the absolute path of a key file; ``file:`` begins a URI here, not a secret."""
    is_secret = around.is_reference(text) and not text.startswith("file:")
    secret = around.secret(text, where) if is_secret else None
    plain = secret.reveal() if secret else text
    try:
        path = str(local_path(plain, around.folder)) if plain else ""
    except PathError as error:
        fix = "Use a local path that exists on every machine that runs tasks."
        raise ShapeError((f"{where} {error}", fix)) from error
    return path if secret is None else Secret(path)


_Preprocessors = Annotated[
    tuple[str, ...], Written(ValueType.CLASS_LIST, plugin=PluginKind.PREPROCESSOR)
]
_Parameters = Annotated[
    dict[str, dict[str, str | Secret]],
    Written(
        ValueType.JSON_OBJECT,
        read=_parameters,
        members=_MEMBERS,
    ),
]


@dataclass(frozen=True, slots=True)
class PreprocessingSection(Section):
    """How the bytes of responses are processed before they are read."""

    names: _Preprocessors = prop(
        PREPROCESSORS,
        "Filters over the bytes of each response, left to right: `gunzip`, `bzip2`, `xz`, "
        "`zstd`, `deflate`, `zip`, `tar`, `gpg-decrypt`, `aggregated-json`, for dumped files "
        "`gpg-encrypt`, Java names of DIL's, or `package.module:Class`.",
        default=(),
    )
    parameters: _Parameters = prop(
        _PARAMETERS,
        "Parameters by preprocessor, which is named as in `ms.extract.preprocessors`.",
        default_factory=dict,
        example=_EXAMPLE,
        hidden_members="every value",
    )
    max_ratio: Annotated[Int, Ge(0)] = prop(
        "ms.extract.expansion.max.ratio",
        "Most bytes that a response may unpack to, as a multiple of its received bytes. The limit "
        "holds for each preprocessor, for `Content-Encoding` and for `ms.source.files.decompress`, "
        "as soon as one of them has unpacked more than 64 MiB; 0 is no limit.",
        default=250,
        identity=False,
    )
    max_bytes: Annotated[Long, Ge(0)] = prop(
        "ms.extract.expansion.max.bytes",
        "Most bytes that one response may unpack to, for each preprocessor, for `Content-Encoding` "
        "and for `ms.source.files.decompress`; 0 is no limit.",
        default=107_374_182_400,
        identity=False,
    )


def find_preprocessors(values: Properties, findings: Findings) -> tuple[PreprocessorSpec, ...]:
    """Return the preprocessors that a job names; missing classes become findings."""
    section = values.section(PreprocessingSection)
    names, parameters = section.names, section.parameters
    found, used = [], set()
    for name in names:
        java = known_name(PluginKind.PREPROCESSOR, name)
        # Parameters are written under the preprocessor's name, as the job has it or an alias.
        keys = [name, simple_name(name)]
        keys += [key for key in parameters if known_name(PluginKind.PREPROCESSOR, key) == java]
        if "gpg" in java.lower():
            keys += [key for key in parameters if simple_name(key) == _GPG]
        key = next((key for key in keys if key in parameters), name)
        own = parameters.get(key, {})
        used.add(key)
        meant = name
        if simple_name(name) == _GPG:  # its parameters choose one of two classes
            encrypts = str(own.get("action", "")).strip().lower() == "encrypt"
            meant = "gpg-encrypt" if encrypts else "gpg-decrypt"
        try:
            ref = resolve(PluginKind.PREPROCESSOR, meant, Preprocessor)
        except PluginError as error:
            for problem in error.problems:
                findings.problem(PREPROCESSORS, problem.what, problem.fix)
            continue
        found.append(PreprocessorSpec(name, ref, own))
    for name in parameters:
        if names and name not in used:
            fix = suggestion(name, names) or f"Name it as in {PREPROCESSORS}."
            findings.notice(_PARAMETERS, f'"{name}" is none of the job\'s preprocessors', fix)
    return tuple(found)


def expansion(values: Properties) -> ExpansionSpec:
    """Return the limits of unpacked bytes per received byte; 0 is no limit."""
    section = values.section(PreprocessingSection)
    return ExpansionSpec(section.max_ratio or None, section.max_bytes or None)


def dump_name(values: Properties) -> str:
    """Return the template of the names of dumped files, empty for a job of rows."""
    is_dump = values.section(ExtractionSection).is_file_dump
    return values.section(DumpSection).file_name.strip() if is_dump else ""


def dump_mode(values: Properties) -> int:
    """Return the permission bits of dumped files."""
    return values.section(DumpSection).file_mode


def check_preprocessors(
    found: tuple[PreprocessorSpec, ...], values: Properties, findings: Findings
) -> None:
    """Let each preprocessor check its parameters, and report each problem with its place."""
    for spec in found:
        kind: type[Preprocessor] = load(spec.filter)
        if kind.is_output and not values.section(ExtractionSection).is_file_dump:
            findings.problem(
                PREPROCESSORS,
                f'names "{spec.name}", which prepares dumped files, and this job dumps none',
                "Leave it out, or set ms.extractor.class=filedump.",
            )
        if not findings.is_sound(_PARAMETERS):
            continue
        texts = kind.parameters
        known = " ".join(f"{name}: {meaning}" for name, meaning in texts.items())
        advice = known or "It has no parameters."
        wrong = [
            (f'has no parameter "{name}"', suggestion(name, texts) or advice)
            for name in spec.parameters
            if is_built_in(spec.filter) and name not in texts
        ]
        wrong += [(what, advice) for what in kind.check(spec.parameters)]
        for what, fix in wrong:
            findings.problem(_PARAMETERS, f'"{spec.name}": {what}', fix)
        given = spec.parameters.get(KEYSTORE, "")
        if path := revealed(given):
            where = f'"{spec.name}": {KEYSTORE} '
            note_missing(path, partial(findings.notice, _PARAMETERS), where)
