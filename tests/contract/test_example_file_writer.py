"""The file writer of docs/writing-a-file-writer.md under the contract, and what that finds.

Each of its wrong forms fails the test that is there for it.
"""

from __future__ import annotations

from pathlib import Path

from tests.contract.example_pages import ExamplePage

PAGE = ExamplePage("writing-a-file-writer.md", "arrow_writer")
WRITE = "self._stream.write_batch(batch)"
# What is wrong: the words of the page, the words in their place, and the test that fails.
WRONG = {
    "drops_a_row": (WRITE, "self._stream.write_batch(batch.slice(1))", "rows_stay_in_their_order"),
    "turns_rows": (
        WRITE,
        "self._stream.write_batch(batch.take(list(range(batch.num_rows))[::-1]))",
        "rows_stay_in_their_order",
    ),
    "rounds": (
        WRITE,
        "import pyarrow.compute as pc\n        self._stream.write_batch(pa.RecordBatch.from_arrays("
        "[pc.round(each, 3) if pa.types.is_floating(each.type) else each for each in batch.columns]"
        ", schema=batch.schema))",
        "a_value_comes_back_as_it_was",
    ),
    "sorts_columns": (
        "pa.ipc.new_stream(sink, schema, options=options)",
        "pa.ipc.new_stream(sink, pa.schema(sorted(schema, key=lambda each: each.name)))",
        "columns_keep_their_order",
    ),
    "ends_no_file": ("self._stream.close()", "pass", "a_file_without_rows_can_be_read"),
    "holds_all": (
        f"        {WRITE}\n\n    def close(self) -> None:",
        "        self._all = [*getattr(self, '_all', []), batch]\n\n"
        "    def close(self) -> None:\n"
        "        for each in getattr(self, '_all', []):\n"
        "            self._stream.write_batch(each)",
        "memory_is_said",
    ),
    "parses_nothing": (
        'Annotated[Literal["none", "lz4", "zstd"], ONE_OF] = prop(',
        'Annotated[Literal["none", "lz4", "zstd", "gzip"], ONE_OF] = prop(',
        "wrong_properties_are_found_before_a_run",
    ),
}


def test_the_file_writer_of_the_page_passes(tmp_path: Path) -> None:
    PAGE.require_passing(tmp_path)


def test_the_contract_finds_what_is_wrong(tmp_path: Path) -> None:
    PAGE.require_found(tmp_path, WRONG)
