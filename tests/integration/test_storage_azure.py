"""Azure as a place of files: what is its own, and what it says when it does not work."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from dil.errors import WriteError
from dil.storage.objects.azure import AzureContainer
from dil.storage.objects.filesystem import ObjectFilesystem
from dil.storage.objects.place import GOOGLE_AND_AZURE
from tests.integration.azure_places import Container, use
from tests.servers.azurite import ACCOUNT, KEY, Azurite
from tests.servers.meddling_proxy import MeddlingProxy
from tests.servers.programs import free_port

MIB = 1 << 20


@pytest.fixture(scope="module")
def azurite():
    with Azurite() as server:
        yield server


@pytest.fixture
def container(azurite, monkeypatch):
    use(azurite, monkeypatch)
    return Container(azurite)


@pytest.fixture
def proxy(azurite, container, monkeypatch):
    with MeddlingProxy(azurite.port) as meddling:
        use(azurite, monkeypatch, meddling.port)
        yield meddling


def write(files, path, data):
    with files.open_output(path) as stream:
        stream.write(data)


def read(files, path):
    with files.open_input(path) as stream:
        return stream.read()


def test_a_large_file_goes_up_in_blocks_and_appears_when_it_is_closed(container):
    files, data = ObjectFilesystem(part_bytes=5 * MIB), os.urandom(12 * MIB + 7)
    with files.open_output(f"{container.uri}/a") as stream:
        for start in range(0, len(data), MIB):
            stream.write(memoryview(data)[start : start + MIB])
        assert container.keys() == []
    assert container.objects() == {"a": data}
    blocks, _ = container.client.get_blob_client("a").get_block_list("all")
    assert [block.size for block in blocks] == [5 * MIB, 5 * MIB, 2 * MIB + 7]


def test_a_file_that_was_never_closed_is_not_there(container):
    files = ObjectFilesystem(part_bytes=5 * MIB)
    stream = files.open_output(f"{container.uri}/staging/a")
    stream.write(bytes(6 * MIB))
    del stream
    assert container.keys() == []
    assert not files.is_folder(f"{container.uri}/staging")


def test_a_file_whose_writing_failed_does_not_appear_when_it_is_closed(container):
    stream = ObjectFilesystem(part_bytes=5 * MIB).open_output(f"{container.uri}/a")
    stream.write(bytes(6 * MIB))
    container.client.delete_container()
    with pytest.raises(WriteError, match="there is no such container"):
        stream.write(bytes(6 * MIB))
    stream.close()


class Killed(BaseException):
    """Stands for SIGKILL."""


def test_a_move_cut_off_between_copy_and_deletion_is_finished_by_the_next(container, monkeypatch):
    files = ObjectFilesystem()
    write(files, f"{container.uri}/a", b"1")

    def die(path):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "delete_file", die)
        with pytest.raises(Killed):
            files.move(f"{container.uri}/a", f"{container.uri}/b")
    assert container.objects() == {"a": b"1", "b": b"1"}
    for _ in range(2):
        files.move(f"{container.uri}/a", f"{container.uri}/b")
        assert container.objects() == {"b": b"1"}


def test_a_move_that_another_driver_finished_meanwhile_changes_nothing(container, proxy):
    files, other = ObjectFilesystem(), ObjectFilesystem()
    write(files, f"{container.uri}/a", b"1")
    proxy.act_before(
        b"x-ms-copy-source:", lambda: other.move(f"{container.uri}/a", f"{container.uri}/b")
    )
    files.move(f"{container.uri}/a", f"{container.uri}/b")
    assert proxy.failures == []
    assert container.objects() == {"b": b"1"}


def test_a_move_never_takes_the_place_of_what_came_since_it_looked(container, proxy):
    files = ObjectFilesystem()
    write(files, f"{container.uri}/a", b"1")
    proxy.act_before(b"x-ms-copy-source:", lambda: container.client.upload_blob("b", b"other"))
    with pytest.raises(WriteError, match="exists already"):
        files.move(f"{container.uri}/a", f"{container.uri}/b")
    assert container.objects() == {"a": b"1", "b": b"other"}


def test_a_copy_whose_answer_was_lost_is_known_as_ours(container, proxy):
    files = ObjectFilesystem()
    write(files, f"{container.uri}/a", b"1")
    proxy.cut_answer_after(b"x-ms-copy-source:")
    files.move(f"{container.uri}/a", f"{container.uri}/b")
    assert proxy.cuts == 1
    assert container.objects() == {"b": b"1"}


def test_a_first_writer_whose_answer_was_lost_finds_its_content(container, proxy):
    files = ObjectFilesystem()
    files.put_if_absent(f"{container.uri}/other", b"")
    proxy.cut_answer_after(b"If-None-Match")
    files.put_if_absent(f"{container.uri}/a", b"mine")
    assert proxy.cuts == 1
    assert read(files, f"{container.uri}/a") == b"mine"


def test_a_body_that_breaks_off_is_read_again(container, proxy):
    data = os.urandom(8 * MIB)
    files = ObjectFilesystem()
    files.put(f"{container.uri}/a", data)
    proxy.cut_after(3 * MIB, times=2)
    assert read(files, f"{container.uri}/a") == data
    assert proxy.cuts == 2


def test_a_blob_that_changes_while_it_is_read_is_an_error(container):
    files = ObjectFilesystem()
    files.put(f"{container.uri}/a", bytes(6 * MIB))
    with files.open_input(f"{container.uri}/a") as stream:
        stream.read(10)
        files.put(f"{container.uri}/a", bytes(7 * MIB))
        stream.seek(5 * MIB)
        with pytest.raises(WriteError, match="another object took its place"):
            stream.read(10)


def test_more_blobs_than_a_page_holds_are_listed_and_deleted(container, monkeypatch):
    from azure.storage.blob import ContainerClient

    for name in ("list_blobs", "walk_blobs"):
        listed = getattr(ContainerClient, name)
        small = lambda *at, listed=listed, **options: listed(  # noqa: E731
            *at, **{**options, "results_per_page": 2}
        )
        monkeypatch.setattr(ContainerClient, name, small)
    files = ObjectFilesystem()
    paths = [f"{container.uri}/in/{number}/x" for number in range(7)]
    for path in paths:
        files.put(path, b"1")
    assert [each.path for each in files.files(f"{container.uri}/in")] == paths
    assert files.folders(f"{container.uri}/in") == list("0123456")
    files.delete_tree(f"{container.uri}/in")
    assert container.keys() == []


def test_markers_of_folders_are_no_files_and_go_with_what_is_in_them(container):
    """Hadoop makes them, and accounts with real folders list these so."""
    files = ObjectFilesystem()
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
    ObjectFilesystem().delete_empty_folder(f"{container.uri}/in")
    assert container.keys() == []


@pytest.mark.parametrize("path", ["/lake/a", "file:///lake/a", "abfss://c@", "s3://lake/a"])
def test_what_is_no_place_on_azure_is_not_there(path, container):
    files = ObjectFilesystem()
    assert not files.exists(path)
    assert list(files.files(path)) == []
    with pytest.raises(FileNotFoundError):
        files.open_input(path)


def test_a_whole_container_is_a_folder(container):
    files = ObjectFilesystem()
    assert not files.exists(container.uri)
    files.put(f"{container.uri}/a/b", b"1")
    assert files.exists(container.uri)
    assert files.folders(container.uri) == ["a"]
    assert [each.path for each in files.files(container.uri)] == [f"{container.uri}/a/b"]


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
    files = ObjectFilesystem()
    write(files, f"{container.uri}/a", b"1")
    files.move(f"{container.uri}/a", f"{container.uri}/b")
    assert container.objects() == {"b": b"1"}


def test_rights_that_are_missing_are_named_without_the_signature(azurite, container, monkeypatch):
    text = with_signature(azurite, container, "rl")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    files = ObjectFilesystem()
    assert not files.is_folder(f"{container.uri}/lake")
    with pytest.raises(WriteError) as caught:
        files.put(f"{container.uri}/lake/a", b"")
    assert "answers Authorization" in caught.value.message
    assert "Storage Blob Data Contributor" in caught.value.fix
    assert "sig=" not in f"{caught.value} {caught.value.__cause__}"


def test_a_key_that_is_wrong_is_told_without_it(azurite, container, monkeypatch):
    wrong = "YW5vdGhlcg=="
    text = azurite.connection_string().replace(KEY, wrong)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    for act in (
        lambda: list(ObjectFilesystem().files(f"{container.uri}/lake")),
        lambda: ObjectFilesystem().put(f"{container.uri}/lake/a", b""),
        lambda: ObjectFilesystem().open_input(f"{container.uri}/lake/a"),
    ):
        with pytest.raises(WriteError) as caught:
            act()
        assert "answers Auth" in caught.value.message
        assert wrong not in str(caught.value)


def test_credentials_without_a_form_are_told_without_them(container, monkeypatch):
    only(monkeypatch, AZURE_STORAGE_KEY="no base64 at all!")
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().put(f"{container.uri}/a", b"")
    assert "AZURE_STORAGE_KEY" in caught.value.fix
    assert "no base64" not in str(caught.value)


def test_no_credentials_at_all_are_told(container, monkeypatch):
    only(monkeypatch, AZURE_TOKEN_CREDENTIALS="EnvironmentCredential")
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().put(f"{container.uri}/a", b"")
    assert "there are no credentials" in caught.value.message
    assert "az login" in caught.value.fix


def test_credentials_are_those_of_the_account_in_the_path(container, monkeypatch):
    from dil.storage.objects.azure_access import container_client

    place = GOOGLE_AND_AZURE.place("abfss://c@other.dfs.core.windows.net/a")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x")
    address = "https://other.blob.core.windows.net/c"
    assert container_client(place).url == f"{address}?sv=1&sig=x"
    # It is from this address that the service copies.
    assert container_client(place).get_blob_client("a").url == f"{address}/a?sv=1&sig=x"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    assert type(container_client(place).credential).__name__ == "DefaultAzureCredential"


# What does not work


def test_a_name_that_is_too_long_is_told_before_anything_is_sent(container):
    files, name = ObjectFilesystem(), "n" * 1024
    files.put(f"{container.uri}/{name}", b"1")
    with pytest.raises(WriteError, match="1,024 bytes"):
        files.is_folder(f"{container.uri}/{name}x")


def test_a_container_that_is_not_there_is_named(container):
    files = ObjectFilesystem()
    place = f"abfss://nowhere@{ACCOUNT}.dfs.core.windows.net/lake"
    for act in (
        lambda: files.exists(place),
        lambda: files.put(f"{place}/a", b""),
        lambda: files.put_if_absent(f"{place}/a", b""),
        lambda: list(files.files(place)),
        lambda: files.folders(place),
        lambda: files.open_input(f"{place}/a"),
        lambda: write(files, f"{place}/a", b""),
    ):
        with pytest.raises(WriteError) as caught:
            act()
        assert "there is no such container" in caught.value.message
        assert place in caught.value.message


def test_a_service_that_is_not_there_is_told_with_its_address(azurite, monkeypatch):
    port = free_port()
    use(azurite, monkeypatch, port)
    with pytest.raises(WriteError) as caught:
        ObjectFilesystem().exists(f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/a")
    assert f"http://127.0.0.1:{port}/{ACCOUNT} cannot be reached" in caught.value.message
    assert "the account's name" in caught.value.fix


def test_a_copy_that_failed_is_not_deleted_once_another_driver_has_made_it(container, monkeypatch):
    files, target = ObjectFilesystem(), f"{container.uri}/a"
    files.put(target, b"rows")
    about = AzureContainer._properties

    def earlier(self, key):
        # Azure's answer of a moment ago: azurite copies at once, and never fails.
        found = about(self, key)
        found.copy.status, found.metadata, found.etag = "failed", {"dil_moved_from": "x"}, '"old"'
        return found

    monkeypatch.setattr(AzureContainer, "_properties", earlier)
    assert not AzureContainer(GOOGLE_AND_AZURE.place(target)).state("a")
    assert container.objects() == {"a": b"rows"}
