"""What Google's client library says of credentials, in our words."""

import pytest
from google.auth import exceptions

from dil.errors import WriteError
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.gcs_requests import Requests
from dil.storage.objects.services import GoogleAndAzure


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (exceptions.RefreshError(), "RefreshError"),
        (exceptions.RefreshError("invalid_grant\nand a page of more"), "invalid_grant"),
    ],
)
def test_credentials_that_get_no_token_are_told_with_what_is_known(error, words, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    asking = Requests("gs://lake")

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(asking._session, "request", refuse)
    with pytest.raises(WriteError) as caught:
        asking.ask("gs://lake/a", "GET", "/")
    assert f"were refused ({words})" in caught.value.message


def test_a_path_of_another_store_is_told_with_the_properties_that_name_one():
    with pytest.raises(WriteError, match="neither on Google") as caught:
        ObjectFilesystem(GoogleAndAzure()).put("s3://lake/a", b"")
    assert "data.publisher.final.dir" in caught.value.fix
    assert "state.store.dir" in caught.value.fix
