"""``s3://bucket/key``: what a path of this filesystem means."""

from __future__ import annotations

import re

from dil.storage.objects.place import Address

S3 = Address(
    # Buckets begin with a letter or a digit. What does not is no bucket, and nothing is there.
    re.compile(
        r"(?P<root>s3://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]*))(?:/(?P<key>.*))?", re.DOTALL
    ),
    "S3",
    "not on S3",
    "The job published elsewhere before; set data.publisher.final.dir back for one run.",
)
