"""Bucket, service and prefix of an S3 address (docs/object-stores.md)."""

from __future__ import annotations

import pytest

from connectors.address import AddressError
from connectors.s3.address import S3Address, S3Service, address_of
from connectors.s3.section import S3Settings

AWS = S3Service("", "us-west-2", path_style=False)
MINIO = "http://minio.lab:9000"


def place(endpoint="", *, region="us-west-2", path_style=None):
    by_path = bool(endpoint) if path_style is None else path_style
    return S3Service(endpoint, region, path_style=by_path)


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix", "service"),
    [
        ("s3://lake/in/", "lake", "in/", AWS),
        ("S3://lake", "lake", "", AWS),
        ("https://lake.s3.amazonaws.com/in/a.csv", "lake", "in/a.csv", AWS),
        ("s3://lake.s3.amazonaws.com/in", "lake", "in", AWS),
        ("https://lake.s3.eu-central-1.amazonaws.com/in", "lake", "in",
         place(region="eu-central-1")),
        ("https://lake.s3-eu-west-1.amazonaws.com/in", "lake", "in", place(region="eu-west-1")),
        ("https://lake.s3.cn-north-1.amazonaws.com.cn/x", "lake", "x", place(region="cn-north-1")),
        ("https://lake.minio.lab/in", "lake", "in", place("https://minio.lab")),
        ("http://lake.minio.lab:9000/in", "lake", "in", place(MINIO)),
        ("https://lake.bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com/in", "lake", "in",
         place("https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com", path_style=False)),
        ("s3://lake/a%20b?c#d//e", "lake", "a%20b?c#d//e", AWS),
    ],
)  # fmt: skip
def test_the_first_label_of_the_host_is_the_bucket_and_the_path_the_prefix(
    uri, bucket, prefix, service
):
    assert address_of(uri, S3Settings()) == S3Address(service, bucket, prefix)


@pytest.mark.parametrize(
    ("uri", "service"),
    [
        ("https://my.lake.s3.amazonaws.com/in", AWS),
        ("https://s3.amazonaws.com/in", AWS),
        ("s3://my.lake/in", AWS),
        ("http://127.0.0.1:9000/in", place("http://127.0.0.1:9000")),
        ("http://my.lake.minio.lab:9000/in", place(MINIO)),
    ],
)
def test_a_bucket_that_is_named_is_left_out_of_the_host(uri, service):
    assert address_of(uri, S3Settings(bucket_name="my.lake")) == S3Address(service, "my.lake", "in")


def test_an_endpoint_goes_before_the_host_which_still_names_the_bucket():
    settings = S3Settings(endpoint=f"{MINIO}/", region="garage")
    wanted = S3Address(place(MINIO, region="garage"), "lake", "in")
    assert address_of("s3://lake/in", settings) == wanted
    assert address_of("https://lake.s3.amazonaws.com/in", settings) == wanted


@pytest.mark.parametrize("asked", [True, False])
def test_the_style_of_paths_is_as_the_job_says(asked):
    found = address_of("s3://lake/in", S3Settings(endpoint=MINIO, path_style=asked))
    assert found.service.path_style is asked


def test_the_region_of_the_job_goes_before_that_of_the_host():
    found = address_of("https://b.s3.eu-west-1.amazonaws.com/in", S3Settings(region="eu-west-3"))
    assert found.service.region == "eu-west-3"


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("ftp://lake/in", "no S3 address"),
        ("lake/in", "no S3 address"),
        ("s3:///in", "names no bucket"),
        ("http://10.0.0.7:9000/lake/in", "no part is a bucket"),
        ("https://key:secret@lake.s3.amazonaws.com/in", "has a user"),
    ],
)
def test_what_is_no_address_is_told(uri, what):
    with pytest.raises(AddressError) as caught:
        address_of(uri, S3Settings())
    assert what in caught.value.what
    assert "secret" not in caught.value.what
