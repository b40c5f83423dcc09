"""The property table: extraction."""

from __future__ import annotations

from dil.config.property import Group, Property
from dil.model.section import Scope, Support, ValueType

_T = Scope.TASK

EXTRACTION = Group(
    "extraction",
    "Extraction",
    (
        Property(
            "ms.extractor.class",
            ValueType.CLASS,
            "The extractor: a short name such as `json`, a Java name of DIL's, or "
            "`package.module:Class`.",
            required=True,
            scope=_T,
        ),
        Property(
            "extractor.class",
            ValueType.STRING,
            "Never read; `ms.extractor.class` is the key.",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.data.field",
            ValueType.STRING,
            "Path of the rows inside the response: a dot path, where a number picks an element of "
            "an array, or JSONPath, which begins with `$`; what it finds are the rows.",
            scope=_T,
        ),
        Property(
            "ms.data.default.type",
            ValueType.JSON_OBJECT,
            "Column name to type, in place of what inference finds for primitive columns.",
            scope=_T,
        ),
        Property(
            "ms.data.explicit.eof",
            ValueType.BOOL,
            "End marker for converters that group rows; here converters are always told.",
            default="false",
            scope=_T,
            support=Support.NO_EFFECT,
            identity=False,
        ),
        Property(
            "ms.source.data.character.set",
            ValueType.CHARSET,
            "Character set of the response.",
            default="UTF-8",
            scope=_T,
        ),
        Property(
            "ms.csv",
            ValueType.JSON_OBJECT,
            "How delimited text is read: characters, header, projection, types and failures. A "
            "character may be written as its code: `u0009` is a tab.",
            scope=_T,
        ),
        Property(
            "ms.extract.preprocessors",
            ValueType.CLASS_LIST,
            "Filters over the bytes of each response, left to right: `gunzip`, `bzip2`, `xz`, "
            "`zstd`, `deflate`, `zip`, `tar`, `gpg-decrypt`, `aggregated-json`, for dumped files "
            "`gpg-encrypt`, Java names of DIL's, or `package.module:Class`.",
            scope=_T,
        ),
        Property(
            "ms.extract.preprocessor.parameters",
            ValueType.JSON_OBJECT,
            "Preprocessor, named as in `ms.extract.preprocessors`, to its parameters.",
            hidden_members="every value",
            scope=_T,
        ),
        Property(
            "ms.extract.expansion.max.ratio",
            ValueType.INT,
            "How many times the received bytes preprocessors may make of a response, once they "
            "made more than 64 MiB; 0 is no limit.",
            default="250",
            low=0,
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.extract.expansion.max.bytes",
            ValueType.LONG,
            "How many bytes preprocessors may make of one response; 0 is no limit.",
            default="107374182400",
            low=0,
            scope=_T,
            identity=False,
        ),
        Property(
            "ms.extractor.target.file.name",
            ValueType.URI_TEMPLATE,
            "File name of a file dump below `data.publisher.final.dir`. For S3 and SFTP, with any "
            "extractor, it also says that one file is read; without it files are listed.",
            variables=True,
            scope=_T,
        ),
        Property(
            "ms.extractor.target.file.permission",
            ValueType.OCTAL,
            "Permission of a dumped file, whatever the umask.",
            default="755",
            scope=_T,
        ),
        Property(
            "ms.encryption.fields",
            ValueType.JSON_ARRAY,
            "Paths, by the names of the source, of values that are replaced by `ENC(...)` of "
            "their text under the first master password. Not inside arrays; null stays null.",
            scope=_T,
        ),
        Property(
            "ms.derived.fields",
            ValueType.JSON_ARRAY,
            "Columns calculated for each row and added after its own.",
            variables=True,
            scope=_T,
        ),
    ),
)
