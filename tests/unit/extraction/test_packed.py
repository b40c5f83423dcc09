"""Packed bodies that are read as text: the error says what they are and what unpacks them."""

import bz2
import gzip
import io
import lzma
import zipfile

import pyarrow as pa
import pytest

from dil.errors import SourceContractError
from dil.extraction.csv.extractor import CsvExtractor
from dil.extraction.json.extractor import JsonExtractor
from dil.model.job import ClassRef, ExtractionSpec
from dil.spi.connector import Response

TEXT = b'[{"a":1}]'


def zipped(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.json", data)
    return file.getvalue()


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


PACKED = [
    (gzip.compress, "gzip", "gunzip"),
    (zipped, "a zip archive", "zip"),
    (zstd, "zstd", "zstd"),
    (lzma.compress, "xz", "xz"),
    (bz2.compress, "bzip2", "bzip2"),
]


def rows(kind, data, content_type="", charset="UTF-8"):
    extractor = kind(ExtractionSpec(ClassRef("m", "c"), charset=charset))
    response = Response(
        io.BytesIO(data),
        content_type=content_type,
        checks_content_type=bool(content_type),
        location="https://h/x",
    )
    return sum(batch.num_rows for batch in extractor.extract(response).batches)


@pytest.mark.parametrize("kind", [JsonExtractor, CsvExtractor])
@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-1"])
@pytest.mark.parametrize(("pack", "what", "preprocessor"), PACKED)
def test_a_packed_body_is_refused_with_what_unpacks_it(kind, charset, pack, what, preprocessor):
    with pytest.raises(SourceContractError) as caught:
        rows(kind, pack(TEXT), charset=charset)
    assert "https://h/x" in caught.value.message
    assert f"the body is {what}, not text" in caught.value.message
    assert f"ms.extract.preprocessors={preprocessor} " in caught.value.fix


def test_a_packed_body_of_a_packed_type_is_told_so_too():
    with pytest.raises(SourceContractError, match="the body is gzip"):
        rows(JsonExtractor, gzip.compress(TEXT), "application/gzip")


def test_delimited_text_that_says_that_it_is_gzip_is_unpacked():
    assert rows(CsvExtractor, gzip.compress(b"1,2\n"), "application/gzip") == 1


@pytest.mark.parametrize("text", [b"", b"1\n", b"BZh,PK\n", b"P,*M,\n" * 5])
def test_text_of_any_length_is_read_as_it_came(text):
    assert rows(CsvExtractor, text) == text.count(b"\n")
