"""An example of each JSON property, as it stands behind the ``=`` in a job file.

A test loads them all in one job, so they also show how the properties go together.
"""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {
    "ms.csv": """\
{"fieldSeparator": "u0009", "columnHeaderIndex": 0, "maxFailures": 10}""",
    "ms.data.default.type": """\
{"amount": "double", "id": "long"}""",
    "ms.derived.fields": """\
[
  {"name": "region", "formula": {"type": "string", "source": "{{region}}"}},
  {"name": "source", "formula": {"type": "string", "value": "shop"}},
  {"name": "extracted_at", "formula": {"type": "epoc", "source": "CURRENTDATE"}},
  {"name": "ordered_ms", "formula": {"type": "epoc", "source": "ordered",
    "format": "yyyy-MM-dd", "timezone": "UTC"}},
  {"name": "year", "formula": {"type": "regexp", "source": "ordered", "format": "^([0-9]{4})"}},
  {"name": "is_open", "formula": {"type": "boolean", "source": "open", "value": "false"}},
  {"name": "lines", "formula": {"type": "int", "source": "address.line"}},
  {"name": "total", "formula": {"type": "number", "source": "amount"}}]""",
    "ms.extract.preprocessor.parameters": """\
{"gpg-decrypt": {"keystore_path": "/secure/acme/secring.gpg"},
 "zip": {"member": ".*[.]csv"}}""",
    "ms.encryption.fields": """\
["address.city"]""",
}
