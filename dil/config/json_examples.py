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
    "ms.ssl": """\
{"connectionTimeoutSeconds": 10, "socketTimeoutSeconds": 300}""",
    "ms.http.request.headers": """\
{"Accept": "application/json", "x-region": "{{region}}", "x-api-key": "env:API_KEY"}""",
    "ms.authentication": """\
{"method": "bearer", "encryption": "none", "token": "env:API_TOKEN"}""",
    "ms.http.statuses": """\
{"success": [200, 202], "warning": [404], "error": [204]}""",
    "ms.http.status.reasons": """\
{"error": ["Not Ready"]}""",
    "ms.http.response.type": """\
{"Content-Type": "application/vnd.api+json"}""",
    "ms.source.s3.parameters": """\
{"region": "eu-central-1", "read_timeout_seconds": 120}""",
    "ms.parameters": """\
[
  {"name": "kind", "value": "order"},
  {"name": "mode", "type": "list", "value": ["everything", "changes"]},
  {"name": "key", "value": "env:API_KEY"},
  {"name": "verbose", "type": "primitive", "value": false},
  {"name": "since", "type": "watermark", "watermark": "system", "value": "low",
   "format": "datetime", "pattern": "yyyy-MM-dd'T'HH:mm:ssZZ", "timezone": "UTC"},
  {"name": "until", "type": "watermark", "watermark": "system", "value": "high",
   "format": "epoch-second"},
  {"name": "tmpRegion", "value": "region-{{region}}"},
  {"name": "filter", "type": "object", "value": [
    {"name": "region", "value": "{{tmpRegion}}"},
    {"name": "limit", "type": "primitive", "value": 10}]},
  {"name": "fields", "type": "jsonarray", "value": ["id", "amount"]},
  {"name": "sort", "type": "jsonobject", "value": {"by": "id"}},
  {"name": "cursor", "type": "session"},
  {"name": "offset", "type": "pagestart"},
  {"name": "size", "type": "pagesize"},
  {"name": "page", "type": "pageno"}]""",
    "ms.pagination": """\
{"initialvalues": [0, 100, 1], "fields": ["paging.offset", "paging.limit"]}""",
    "ms.session.key.field": """\
{"name": "status", "condition": {"regexp": "ready|empty"},
 "failCondition": {"regexp": "failed"}}""",
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
    "ms.validation.attributes": """\
{"threshold": 5, "criteria": "fail", "errorColumn": "error"}""",
    "ms.schema.cleansing": """\
{"pattern": "[^A-Za-z0-9_]", "replacement": "_"}""",
    "ms.secondary.input": """\
[{"path": "/lake/crm/token", "fields": ["access_token"], "category": "authentication",
  "retry": {"delayInSec": 30, "retryCount": 10}}]""",
    "ms.retention": """\
{"state.store": "P90D"}""",
}
