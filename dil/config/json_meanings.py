"""The members of JSON properties that are read without a model. Source: behaviour.md B3 to B10."""

from __future__ import annotations

from collections.abc import Mapping

# (member, value, meaning) of what is read without a model.
WITHOUT_MODEL: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "ms.extract.preprocessor.parameters": (
        ("(preprocessor)", "object of texts", "Named as in `ms.extract.preprocessors`."),
        (
            "(preprocessor).keystore_path",
            "text",
            "GPG: key file, secret keys to decrypt, public keys to encrypt. Relative, it starts at "
            "the folder of the job file.",
        ),
        (
            "(preprocessor).keystore_password",
            "text, may be a secret",
            "GPG: pass phrase, of the secret key or, without key file, of the message.",
        ),
        ("(preprocessor).key_name", "text", "GPG encryption: id of the key to encrypt for."),
        ("(preprocessor).cipher", "text", "GPG encryption: symmetric cipher; CAST5 if left out."),
        ("(preprocessor).action", "encrypt, decrypt", "What the name `GpgProcessor` stands for."),
        ("(preprocessor).member", "text", "zip, tar: Java expression for the one file inside."),
        ("(preprocessor).header", "text", "aggregated-json: path of the column names."),
        ("(preprocessor).data", "text", "aggregated-json: path of the rows, arrays of values."),
        ("(preprocessor).unwrap", "text", "aggregated-json: path that is followed first."),
        ("(preprocessor).fields", "text", "aggregated-json: paths, comma separated, to copy."),
    ),
    "ms.data.default.type": (
        ("(a column's name)", "a type word", "Type of the column where it is inferred."),
    ),
    "ms.encryption.fields": (),
}
