"""The private key of an SFTP user, as far as no server is needed."""

from __future__ import annotations

import pytest

from connectors.sftp.connection import private_key
from dil.errors import ConfigError
from dil.model.secret import Secret


@pytest.mark.parametrize("path", ["/secure/none/id_ed25519", "~/none/id_ed25519", "../none/key"])
def test_a_key_file_that_cannot_be_read_is_named(path: str) -> None:
    with pytest.raises(ConfigError, match="No such file or directory") as caught:
        private_key(Secret(path), None)
    assert f"(No such file or directory): {path}" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "MHcCAQEEIO9wq0Q5Zs6Gk0mKzJ8jJ0V0cQ3zq4f8x1y2z3A4B5C6oAoGCCqGSM49",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n/AAAAAAAAABAAAAMwAAAAtzc2gtZW\n",
        "/" + "A" * 300,
    ],
)
def test_a_key_without_its_first_line_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match="names a file that cannot be read") as caught:
        private_key(Secret(text), None)
    assert text[:20] not in str(caught.value)
