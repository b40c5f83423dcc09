"""The peer of bench_dlt.py: the same pages read by dlt into Parquet files; run by dlt's own Python.

    python dlt_loop.py URL FOLDER UNTIL LIMIT UNIT...

dlt as its documents advise for speed: rest_api resources in parallel, one for each unit, nested
values kept as JSON columns, files written as Parquet, two workers for the normalise step.
"""

import os
import sys

url, folder, until, limit, *units = sys.argv[1:]
os.environ |= {
    "DLT_DATA_DIR": f"{folder}/home",
    "RUNTIME__DLTHUB_TELEMETRY": "false",
    "NORMALIZE__WORKERS": "2",
    "NORMALIZE__START_METHOD": "spawn",
    "EXTRACT__WORKERS": str(len(units)),
    "DATA_WRITER__BUFFER_MAX_ITEMS": "50000",
    "DATA_WRITER__FILE_MAX_ITEMS": "500000",
}

import dlt  # noqa: E402 - reads its configuration from the environment
from dlt.sources.rest_api import rest_api_resources  # noqa: E402


@dlt.source(max_table_nesting=0)
def records():
    """Return one resource for each unit; all of them fill one table."""
    paginator = {"type": "cursor", "cursor_path": "next", "cursor_param": "cursor"}
    yield from rest_api_resources(
        {
            "client": {"base_url": url, "paginator": paginator},
            "resources": [
                {
                    "name": f"records_{unit}",
                    "table_name": "records",
                    "parallelized": True,
                    "endpoint": {
                        "path": "records",
                        "params": {"unit": unit, "until": until, "limit": limit},
                        "data_selector": "data",
                    },
                }
                for unit in units
            ],
        }
    )


def main() -> None:
    """Load, and print the number of rows."""
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=f"{folder}/pipelines",
        destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}/lake"),
        dataset_name="bench",
    )
    pipeline.run(records(), loader_file_format="parquet")
    print(pipeline.last_trace.last_normalize_info.row_counts["records"])


if __name__ == "__main__":
    main()
