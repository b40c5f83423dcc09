"""Published vectors (rule S2), and what can go wrong with a secret."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from dil.model.secret import Secret
from dil.secrets import SecretError, SecretResolver, is_reference, legacy, read_master_passwords
from dil.secrets.legacy import decrypt
from dil.storage import LocalFilesystem

OPENED = LocalFilesystem().open_input
VECTORS = [
    ("testkey", "M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl", False, "password"),
    ("Hello", "AQWoQ2Ybe8KXDXwPOA1Ziw==", False, "Bye"),
    ("testkey", "AQIDBAUGBwg1UgIVfs78yhF+UO1yJl7u", False, "password"),
    ("testkey", "AQIDBAUGBwgQ1bWNbnb4UCCN/ijAvqP5", True, "password"),
    # Of Java 17, with two equal halves of the salt.
    ("testkey", "AQIDBAECAwQzIIvlW9JmkPbOsZEPYW5b", True, "password"),
]


def resolver(*passwords: str, **environ: str) -> SecretResolver:
    return SecretResolver(environ=environ, folder=Path("/nowhere"), passwords=passwords)


@pytest.mark.parametrize(("password", "text", "strong", "plain"), VECTORS)
def test_published_cipher_texts_are_read(password, text, strong, plain):
    assert decrypt(text, password, strong=strong) == plain


def test_the_first_master_password_that_fits_is_used():
    secret = resolver("wrong", "testkey").resolve("ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)")
    assert secret.reveal() == "password"


def test_a_wrong_master_password_is_an_error_without_the_text():
    with pytest.raises(SecretError) as caught:
        resolver("wrong").resolve("ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)")
    assert "M6nV" not in str(caught.value)
    assert "encrypt.key.loc" in caught.value.fix


def test_bytes_that_are_no_text_are_not_repeated():
    """A wrong password in 256 gives right padding, and then bytes that may be half a secret."""
    key, vector = legacy._default_key(bytes(8), b"testkey")
    encryptor = Cipher(TripleDES(key), modes.CBC(vector)).encryptor()
    sealed = encryptor.update(b"t0p \xff" + b"\3" * 3) + encryptor.finalize()
    with pytest.raises(ValueError, match="master password") as caught:
        decrypt(base64.b64encode(bytes(8) + sealed).decode(), "testkey", strong=False)
    assert "t0p" not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_encrypted_text_without_any_master_password_is_an_error():
    with pytest.raises(SecretError, match="no master password"):
        resolver().resolve("ENC(AQWoQ2Ybe8KXDXwPOA1Ziw==)")


def test_master_password_files_that_are_missing_are_named():
    files = ("/keys/master.key", "/keys/master.key.1")
    without = SecretResolver({}, Path("/nowhere"), missing=files)
    for act in (without.resolve, without.check):
        with pytest.raises(SecretError) as caught:
            act("ENC(AQWoQ2Ybe8KXDXwPOA1Ziw==)")
        assert "/keys/master.key and /keys/master.key.1 do not exist" in caught.value.what
        assert "encrypt.key.loc" in caught.value.fix


@pytest.mark.parametrize("text", ["ENC()", "ENC(%%%)", "ENC(AQID)"])
def test_text_that_cannot_be_a_cipher_text_is_an_error(text):
    with pytest.raises(SecretError):
        resolver("testkey").resolve(text)


def test_an_environment_variable_is_read_from_the_given_environment():
    assert resolver(API_TOKEN="t0p").resolve("env:API_TOKEN").reveal() == "t0p"
    with pytest.raises(SecretError, match="API_TOKEN"):
        resolver().resolve("env:API_TOKEN")


def test_a_file_is_read_without_its_last_line_ends(tmp_path):
    (tmp_path / "token").write_bytes(b" t0p \r\n\n")
    in_folder = SecretResolver(environ={}, folder=tmp_path)
    assert in_folder.resolve("file:token").reveal() == " t0p "
    assert in_folder.resolve(f"file://{tmp_path}/token").reveal() == " t0p "
    with pytest.raises(SecretError, match="cannot be read"):
        in_folder.resolve("file:missing")


def test_plain_text_stands_for_itself_and_partial_forms_are_plain():
    for text in ("secret", "x ENC(AQWo)", "ENC(AQWo", "environment:A", "env:not a name"):
        assert not is_reference(text)
        assert resolver().resolve(text).reveal() == text


def test_a_secret_never_prints_and_survives_pickling():
    secret = Secret("t0p")
    assert "t0p" not in f"{secret} {secret!r} {[secret]}"
    assert pickle.loads(pickle.dumps(secret)).reveal() == "t0p"
    assert "t0p" not in repr(resolver("t0p"))


def test_master_password_files_are_tried_in_order_and_missing_ones_skipped(tmp_path):
    path = tmp_path / "master.key"
    (tmp_path / "master.key.1").write_bytes(b"second\r\nrest")
    assert read_master_passwords(str(path), 2, OPENED) == ("second",)
    path.write_text("first\n")
    assert read_master_passwords(str(path), 2, OPENED) == ("first", "second")
    assert read_master_passwords(str(path), 1, OPENED) == ("first",)


def test_text_of_a_version_that_is_not_known_is_told_as_such():
    with pytest.raises(SecretError, match="version v9") as caught:
        resolver("testkey").resolve("ENC(v9:AAAA)")
    assert "dil secrets encrypt" in caught.value.fix


def test_checking_decrypts_nothing_and_still_finds_a_missing_password():
    resolver("wrong").check("ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)")
    with pytest.raises(SecretError, match="no master password"):
        resolver().check("ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)")
    with pytest.raises(SecretError, match="NOWHERE"):
        resolver("testkey").check("env:NOWHERE")


def test_an_empty_master_password_is_an_error(tmp_path):
    (tmp_path / "key").write_text("\n")
    with pytest.raises(ValueError, match="empty"):
        read_master_passwords(str(tmp_path / "key"), 1, OPENED)


def test_a_master_password_file_that_cannot_be_read_is_not_passed_over(tmp_path):
    (tmp_path / "key").mkdir()
    (tmp_path / "key.1").write_text("second")
    with pytest.raises(IsADirectoryError):
        read_master_passwords(str(tmp_path / "key"), 2, OPENED)


def test_a_name_that_a_file_is_in_the_way_of_is_a_missing_master_password_file(tmp_path):
    (tmp_path / "file").write_text("x")
    assert read_master_passwords(str(tmp_path / "file" / "key"), 1, OPENED) == ()


def test_a_master_password_keeps_its_blanks(tmp_path):
    (tmp_path / "key").write_text(" first \n")
    assert read_master_passwords(str(tmp_path / "key"), 1, OPENED) == (" first ",)


def test_a_variable_without_text_is_a_secret_without_text():
    assert resolver(API_TOKEN="").resolve("env:API_TOKEN").reveal() == ""


def test_a_file_that_is_no_text_is_an_error(tmp_path):
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(SecretError, match="not UTF-8"):
        SecretResolver(environ={}, folder=tmp_path).resolve("file:token")


def test_a_file_of_another_host_is_not_a_file_beside_the_job(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "token").write_text("t0p")
    with pytest.raises(SecretError, match="cannot be read"):
        SecretResolver(environ={}, folder=tmp_path).resolve("file://other/token")


def test_encrypted_text_over_several_lines_is_no_plain_secret():
    assert is_reference("ENC(AQWoQ2Ybe8KX\nDXwPOA1Ziw==)")
