"""Encrypting the ENC(...) texts of a job file again."""

from __future__ import annotations

from pathlib import Path

import pytest

from dil.secrets import SecretError, SecretResolver
from dil.secrets.authenticated import Cost, Encryptor
from dil.secrets.rewriting import reencrypt

LEGACY = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"
OLD = SecretResolver({}, Path(), ("testkey",))
NEW = SecretResolver({}, Path(), ("new",))
ENCRYPTOR = Encryptor.of("new", Cost(2, 1, 1))


def test_only_the_encrypted_texts_of_a_file_change():
    text = (
        f"# was {LEGACY}\r\n"
        f"source.conn.password={LEGACY}\r\n"
        "job.name=a\r\n"
        f'ms.http.request.headers={{"a":"{LEGACY}","b":"{LEGACY}"}}'
    )
    found = reencrypt(text, OLD, ENCRYPTOR)
    assert found.lines == (2, 4)
    first, second, third, fourth = found.text.split("\r\n")
    assert (first, third) == (f"# was {LEGACY}", "job.name=a")
    assert NEW.resolve(second.partition("=")[2]).reveal() == "password"
    assert fourth.count("ENC(v1:") == 2


def test_what_cannot_be_decrypted_is_told_with_its_line():
    with pytest.raises(SecretError, match="line 2: cannot be decrypted"):
        reencrypt(f"a=b\nc={LEGACY}\n", NEW, ENCRYPTOR)


def test_a_text_stays_bound_to_its_property():
    old = Encryptor.of("testkey", Cost(2, 1, 1)).encrypt("t0p", "ms.authentication")
    found = reencrypt(f"token={old}\nms.authentication=${{token}}\n", OLD, ENCRYPTOR)
    text = found.text.splitlines()[0].removeprefix("token=")
    assert NEW.resolve(text, "ms.authentication").reveal() == "t0p"
    with pytest.raises(SecretError, match=r"encrypted for ms\.authentication"):
        NEW.resolve(text, "token")
