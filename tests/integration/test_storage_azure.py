"""Azure as a place of files: what is its own, and what it says when it does not work."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from dil.errors import WriteError
from dil.storage.objects.azure import AzureContainer
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.services import GoogleAndAzure
from tests.integration.azure_places import opened
from tests.integration.places import refused, write
from tests.servers.azurite import ACCOUNT, KEY

MIB = 1 << 20


@pytest.fixture
def container(azurite, monkeypatch):
    return opened(azurite, monkeypatch)


def test_a_file_whose_writing_failed_does_not_appear_when_it_is_closed(container):
    stream = ObjectFilesystem(GoogleAndAzure(), part_bytes=5 * MIB).open_output(
        f"{container.uri}/a"
    )
    stream.write(bytes(6 * MIB))
    container.client.delete_container()
    with pytest.raises(WriteError, match="there is no such container"):
        stream.write(bytes(6 * MIB))
    stream.close()


def test_markers_of_folders_are_no_files_and_go_with_what_is_in_them(container):
    """Hadoop makes them, and accounts with real folders list these so."""
    files = ObjectFilesystem(GoogleAndAzure())
    for name in ("in", "in/deep", "in/deep/est"):
        container.client.upload_blob(name, b"", metadata={"hdi_isfolder": "true"})
    assert list(files.files(container.uri)) == []
    assert not files.is_folder(f"{container.uri}/in")
    assert not files.exists(f"{container.uri}/in/deep")
    assert "deep" in files.folders(f"{container.uri}/in")
    files.put(f"{container.uri}/in/deep/x", b"1")
    assert files.is_folder(f"{container.uri}/in")
    files.delete_empty_folder(f"{container.uri}/in")
    assert container.keys() == ["in", "in/deep", "in/deep/est", "in/deep/x"]
    files.delete_tree(f"{container.uri}/in")
    assert container.keys() == []


def test_the_marker_of_an_empty_folder_is_deleted_with_it(container):
    container.client.upload_blob("in", b"", metadata={"hdi_isfolder": "true"})
    ObjectFilesystem(GoogleAndAzure()).delete_empty_folder(f"{container.uri}/in")
    assert container.keys() == []


# Credentials


def only(monkeypatch, **variables):
    """Let the connection string be of another account, and give these credentials."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def signature(container, permission):
    return generate_container_sas(
        ACCOUNT, container.name, account_key=KEY,
        permission=ContainerSasPermissions.from_string(permission),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )  # fmt: skip


def with_signature(azurite, container, permission):
    """Return a connection string; the account is told too, for it is not in the address's host."""
    token = signature(container, permission)
    return f"BlobEndpoint={azurite.url};AccountName={ACCOUNT};SharedAccessSignature={token}"


def test_a_signature_is_enough(azurite, container, monkeypatch):
    text = with_signature(azurite, container, "racwdl")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    files = ObjectFilesystem(GoogleAndAzure())
    write(files, f"{container.uri}/a", b"1")
    files.move(f"{container.uri}/a", f"{container.uri}/b")
    assert container.objects() == {"b": b"1"}


def test_rights_that_are_missing_are_named_without_the_signature(azurite, container, monkeypatch):
    text = with_signature(azurite, container, "rl")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    files = ObjectFilesystem(GoogleAndAzure())
    assert not files.is_folder(f"{container.uri}/lake")
    error = refused(lambda: files.put(f"{container.uri}/lake/a", b""))
    assert "answers Authorization" in error.message
    assert "Storage Blob Data Contributor" in error.fix
    assert "sig=" not in f"{error} {error.__cause__}"


def test_a_key_that_is_wrong_is_told_without_it(azurite, container, monkeypatch):
    wrong = "YW5vdGhlcg=="
    text = azurite.connection_string().replace(KEY, wrong)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    for act in (
        lambda: list(ObjectFilesystem(GoogleAndAzure()).files(f"{container.uri}/lake")),
        lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{container.uri}/lake/a", b""),
        lambda: ObjectFilesystem(GoogleAndAzure()).open_input(f"{container.uri}/lake/a"),
    ):
        error = refused(act)
        assert "answers Auth" in error.message
        assert wrong not in str(error)


def test_credentials_without_a_form_are_told_without_them(container, monkeypatch):
    only(monkeypatch, AZURE_STORAGE_KEY="no base64 at all!")
    error = refused(lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{container.uri}/a", b""))
    assert "AZURE_STORAGE_KEY" in error.fix
    assert "no base64" not in str(error)


def test_no_credentials_at_all_are_told(container, monkeypatch):
    only(monkeypatch, AZURE_TOKEN_CREDENTIALS="EnvironmentCredential")
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    error = refused(lambda: ObjectFilesystem(GoogleAndAzure()).put(f"{container.uri}/a", b""))
    assert "there are no credentials" in error.message
    assert "az login" in error.fix


def test_credentials_are_those_of_the_account_in_the_path(container, monkeypatch):
    from dil.storage.objects.azure_access import container_client

    place = GoogleAndAzure.address.place("abfss://c@other.dfs.core.windows.net/a")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x")
    address = "https://other.blob.core.windows.net/c"
    assert container_client(place).url == f"{address}?sv=1&sig=x"
    # It is from this address that the service copies.
    assert container_client(place).get_blob_client("a").url == f"{address}/a?sv=1&sig=x"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    assert type(container_client(place).credential).__name__ == "DefaultAzureCredential"


# What does not work


def test_a_copy_that_failed_is_not_deleted_once_another_driver_has_made_it(container, monkeypatch):
    files, target = ObjectFilesystem(GoogleAndAzure()), f"{container.uri}/a"
    files.put(target, b"rows")
    about = AzureContainer._properties

    def earlier(self, key):
        # Azure's answer of a moment ago: azurite copies at once, and never fails.
        found = about(self, key)
        found.copy.status, found.metadata, found.etag = "failed", {"dil_moved_from": "x"}, '"old"'
        return found

    monkeypatch.setattr(AzureContainer, "_properties", earlier)
    assert not AzureContainer(GoogleAndAzure.address.place(target)).state("a")
    assert container.objects() == {"a": b"rows"}
