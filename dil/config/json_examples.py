"""An example of each JSON property, as it stands behind the ``=`` in a job file.

A test loads them all in one job, so they also show how the properties go together.
"""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {
    "ms.watermark": """\
[
  {"name": "system", "type": "datetime", "range": {"from": "2024-01-01", "to": "P0D"}},
  {"name": "region", "type": "unit",
   "units": [{"region": "eu", "host": "a"}, {"region": "us", "host": "b"}]}]""",
    "ms.work.unit.partition": """\
{"monthly": ["2020-01-01", "2024-01-01"], "daily": ["2024-01-01", "-"]}""",
    "ms.source.s3.parameters": """\
{"region": "eu-central-1", "read_timeout_seconds": 120}""",
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
    "ms.output.schema": """\
[
  {"columnName": "id", "isNullable": false, "dataType": {"type": "long"}, "comment": "the key"},
  {"columnName": "ordered", "dataType": {"type": "string"}},
  {"columnName": "open", "dataType": {"type": "boolean"}},
  {"columnName": "amount", "dataType": {"type": "decimal", "precision": 18, "scale": 2}},
  {"columnName": "state", "dataType": {"type": "enum", "name": "state",
    "symbols": ["NEW", "PAID"]}},
  {"columnName": "tags", "dataType": {"type": "array", "name": "tags", "items": "string"}},
  {"columnName": "labels", "dataType": {"type": "map", "name": "labels", "values": "string"}},
  {"columnName": "address", "dataType": {"type": "record", "name": "address", "values": [
    {"columnName": "city", "isNullable": false, "dataType": {"type": "string"}},
    {"columnName": "line", "dataType": {"type": ["int", "null"]}}]}}]""",
    "ms.extract.preprocessor.parameters": """\
{"gpg-decrypt": {"keystore_path": "/secure/acme/secring.gpg"},
 "zip": {"member": ".*[.]csv"}}""",
    "ms.encryption.fields": """\
["address.city"]""",
    "ms.target.schema": """\
[
  {"columnName": "region", "dataType": {"type": "string"}},
  {"columnName": "orders", "dataType": {"type": "array", "name": "orders", "items":
    {"name": "order", "dataType": {"type": "record", "name": "order", "values": [
      {"columnName": "id", "dataType": {"type": "long"}},
      {"columnName": "total", "dataType": {"type": "double"}}]}}}}]""",
    "ms.schema.cleansing": """\
{"pattern": "[^A-Za-z0-9_]", "replacement": "_"}""",
    "ms.secondary.input": """\
[{"path": "/lake/crm/token", "fields": ["access_token"], "category": "authentication",
  "retry": {"delayInSec": 30, "retryCount": 10}}]""",
}
