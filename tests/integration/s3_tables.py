"""Delta and Iceberg tables in a bucket, read past ``dil``: by their own libraries and by polars."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from tests.integration.s3_places import Bucket
from tests.servers.s3 import KEY, REGION, SECRET
from tests.table_readers import ids


class BucketTable:
    """The table ``shop.orders`` of a job whose state is in ``folder/state``."""

    def __init__(self, kind: str, bucket: Bucket, folder: Path, url: str) -> None:
        self.kind = kind
        self.bucket = bucket
        self.uri = f"{bucket.uri}/lake/shop/orders"
        self._catalog = f"sqlite:///{folder}/state/iceberg-catalog.db"
        self._url = url

    @property
    def options(self) -> dict[str, str]:
        """Return what the libraries need that are built on Rust's object_store."""
        return {
            "aws_endpoint_url": self._url,
            "aws_endpoint_url_s3": self._url,
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
            "aws_region": REGION,
            "aws_allow_http": "true",
        }

    def delta(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self.options)

    def iceberg(self) -> Table:
        """Return the table with the library's own access to S3, which is that of pyarrow."""
        catalog = load_catalog(
            "default",
            **{
                "type": "sql",
                "uri": self._catalog,
                "s3.endpoint": self._url,
                "s3.access-key-id": KEY,
                "s3.secret-access-key": SECRET,
                "s3.region": REGION,
            },
        )
        try:
            return catalog.load_table("shop.orders")
        finally:
            catalog.close()

    def read(self) -> pa.Table:
        """Return all rows, read by the format's own library."""
        if self.kind == "delta":
            return self.delta().to_pyarrow_table()
        return self.iceberg().scan().to_arrow()

    def ids(self) -> Counter[tuple[str, int]]:
        return ids(self.read())

    def ids_by_polars(self) -> Counter[tuple[str, int]]:
        if self.kind == "delta":
            found = pl.scan_delta(self.uri, storage_options=self.options).collect()
        else:
            with patch.dict(os.environ, {"POLARS_ICEBERG_PLANNER": "pyiceberg"}):
                found = pl.scan_iceberg(
                    self.iceberg(), reader_override="native", storage_options=self.options
                ).collect()
        return Counter(zip(found["unit"], found["id"], strict=True))

    def files(self) -> list[str]:
        """Return the keys of the table's files."""
        if self.kind == "delta":
            paths = self.delta().get_add_actions().column("path").to_pylist()
            return sorted(f"lake/shop/orders/{unquote(path)}" for path in paths)
        tasks = self.iceberg().scan().plan_files()
        return sorted(task.file.file_path.removeprefix(f"{self.bucket.uri}/") for task in tasks)

    def listed(self) -> list[str]:
        """Return the keys of the files that the dataset's newest manifest lists."""
        objects = self.bucket.objects("lake/shop/orders/_dil/")
        hint = json.loads(objects["lake/shop/orders/_dil/current.json"])
        manifest = json.loads(objects[f"lake/shop/orders/_dil/{hint['manifest']}"])
        return sorted(each["uri"].removeprefix(f"{self.bucket.uri}/") for each in manifest["files"])

    def stored(self) -> list[str]:
        """Return the keys of the data files that are there, of whatever version."""
        return [
            key
            for key in self.bucket.keys("lake/shop/orders/")
            if key.endswith(".parquet") and not {"_delta_log", "_dil"}.intersection(key.split("/"))
        ]
