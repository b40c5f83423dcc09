"""Options of Rust's object_store, with which other libraries reach DIL's objects.

Source: object_store, ``AmazonS3ConfigKey``.
"""

from __future__ import annotations

from dil.storage.s3.client import S3Connection, is_of_aws
from dil.storage.s3.failures import translated_errors


def object_store_options(connection: S3Connection, bucket: str) -> dict[str, str]:
    """Return endpoint, region and credentials, which are secret and valid for some minutes.

    Raises:
        WriteError: the bucket cannot be reached.
    """
    client = connection.client
    with translated_errors(f"s3://{bucket}", client):
        answer = client.head_bucket(Bucket=bucket)
    # Unlike botocore, the library does not follow a bucket to its region.
    region = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", "")
    if is_of_aws(client) and region not in {"", client.meta.region_name}:
        client = connection.client_in(region)
    endpoint, is_by_host = client.meta.endpoint_url, connection.is_by_host
    if is_by_host:
        endpoint = endpoint.replace("://", f"://{bucket}.", 1)
    credentials = connection.session.get_credentials().get_frozen_credentials()
    options = {
        # Both are set, because the variable AWS_ENDPOINT_URL_S3 overrides the first.
        "aws_endpoint_url": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "aws_allow_http": str(endpoint.startswith("http://")).lower(),
        "aws_virtual_hosted_style_request": str(is_by_host).lower(),
        "aws_region": region or client.meta.region_name or "us-east-1",
        "aws_access_key_id": credentials.access_key,
        "aws_secret_access_key": credentials.secret_key,
        "aws_conditional_put": "etag",
    }
    if credentials.token:
        options["aws_session_token"] = credentials.token
    return options
