"""Status lines as GnuPG 2.2 and 2.4 write them, and what is made of them."""

import pytest

from dil.extraction.preprocessing.gpg_process import failure_of

KEY, OTHER = "32C71DB1563C9145", "CFA23ABBCDBE43D8"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["ERROR pkdecrypt_failed 67108875"], "the pass phrase is wrong"),
        (["ERROR symkey_decrypt.maybe_error 11_BAD_PASSPHRASE"], "the pass phrase is wrong"),
        # One of two keys is there: that the other one is not does not matter.
        (["ERROR pkdecrypt_failed 11", f"NO_SECKEY {OTHER}"], "the pass phrase is wrong"),
        (["ERROR pkdecrypt_failed 67109041"], "a pass phrase is needed"),
        (["NEED_PASSPHRASE_SYM 9 3 2", "MISSING_PASSPHRASE"], "a pass phrase is needed"),
        ([f"NO_SECKEY {KEY}", f"NO_SECKEY {OTHER}"], f"the message is for {KEY} or {OTHER}"),
        ([f"NO_SECKEY {'0' * 16}"], "does not name its key"),
        ([f"NO_PUBKEY {KEY}", "DECRYPTION_OKAY"], f"public key of its signer {KEY} is missing"),
    ],
)
def test_why_a_message_is_refused_is_told(lines, told):
    found = failure_of(f"[GNUPG:] {line}\n" for line in ["BEGIN_DECRYPTION", *lines])
    assert found is not None
    assert told in found[0]


@pytest.mark.parametrize(
    "line",
    ["NODATA 3", "ERROR verify 67108989", "ERROR odd", "BADMDC", f"NO_PUBKEY {KEY}"],
)
def test_other_lines_do_not_say_why(line):
    assert failure_of([f"[GNUPG:] {line}\n"]) is None
