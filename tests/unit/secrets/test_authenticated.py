"""``ENC(v2:...)`` and ``ENC(v1:...)``: AES-256-GCM under a key derived by scrypt."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dil.secrets import SecretError, SecretResolver, authenticated
from dil.secrets.authenticated import Cost, Encryptor, PurposeError, decrypt, purpose_of

CHEAP = Cost(log_n=2, r=1, p=1)
# Written once by this code: whoever changes the form must still read it.
OLD = "ENC(v1:BAgBAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaG8eZtzZkK7Bl78N-xAhMjGtGoxOIcFY02g)"
BOUND = (
    "ENC(v2:BAgBAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGwARbX"
    "MuYXV0aGVudGljYXRpb27Hmbc2ZCuwZdvpm-nH79OfKE-08uG_6ac)"
)


def inside(text: str) -> str:
    return text.removeprefix("ENC(").removesuffix(")")


def resolver(*passwords: str) -> SecretResolver:
    return SecretResolver(environ={}, folder=Path("/nowhere"), passwords=passwords)


@given(st.text(), st.text(min_size=1))
def test_every_text_is_read_back_under_its_password(plain, password):
    text = Encryptor.of(password, CHEAP).encrypt(plain)
    assert decrypt(inside(text), password) == plain


@given(st.text(), st.text(min_size=1), st.text(min_size=1), st.text())
def test_a_text_is_read_for_its_purpose_and_for_no_other(plain, password, purpose, other):
    text = Encryptor.of(password, CHEAP).encrypt(plain, purpose)
    assert text.startswith("ENC(v2:")
    assert purpose_of(text) == purpose
    assert decrypt(inside(text), password, purpose) == plain
    if other != purpose:
        with pytest.raises(PurposeError) as caught:
            decrypt(inside(text), password, other)
        assert caught.value.purpose == purpose


@pytest.mark.parametrize("purpose", ["", "source.conn.password"])
def test_texts_of_the_first_forms_are_read_for_every_purpose(purpose):
    assert resolver("testkey").resolve(OLD, purpose).reveal() == "password"
    legacy = "ENC(M6nV+j0lhqZ36RgvuF5TQMyNvBtXmkPl)"
    assert resolver("testkey").resolve(legacy, purpose).reveal() == "password"


def test_a_kept_text_with_a_purpose_is_read():
    assert resolver("testkey").resolve(BOUND, "ms.authentication").reveal() == "password"


@pytest.mark.parametrize("asked", ["", "source.conn.password"])
def test_a_text_of_another_purpose_is_refused_without_the_secret(asked):
    with pytest.raises(SecretError, match=r"was encrypted for ms\.authentication") as caught:
        resolver("testkey").resolve(BOUND, asked)
    assert f"--for {asked or 'PROPERTY'}" in caught.value.fix
    assert "password" not in f"{caught.value.what} {caught.value.__cause__}"


def test_a_purpose_is_told_only_where_the_master_password_shows_that_it_is_authentic():
    with pytest.raises(SecretError, match="no master password fits") as caught:
        resolver("wrong").resolve(BOUND, "source.conn.password")
    assert "ms.authentication" not in str(caught.value)


def test_a_purpose_cannot_be_taken_off_or_put_on():
    for text in (BOUND.replace("v2:", "v1:"), OLD.replace("v1:", "v2:")):
        for purpose in ("", "ms.authentication"):
            with pytest.raises(SecretError, match="cannot be decrypted"):
                resolver("testkey").resolve(text, purpose)


@pytest.mark.parametrize(
    "text", ["plain", "ENC(v1:AAAA)", "ENC(v2:AAAA)", "ENC(v2:%)", f"{BOUND[:83]})", OLD]
)
def test_what_names_no_purpose_has_none(text):
    assert purpose_of(text) == ""


def test_the_same_secret_is_never_written_twice_alike():
    encryptor = Encryptor.of("testkey", CHEAP)
    assert encryptor.encrypt("a") != encryptor.encrypt("a")


def test_a_text_holds_nothing_that_a_job_file_would_have_to_escape():
    text = Encryptor.of("testkey", CHEAP).encrypt("x" * 200)
    assert set(inside(text)) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_:"
    )


def test_the_password_that_fits_is_found_among_several():
    text = Encryptor.of("second", CHEAP).encrypt("t0p")
    assert resolver("first", "second").resolve(text).reveal() == "t0p"


def test_a_wrong_password_is_an_error_that_repeats_neither_text():
    text = Encryptor.of("right", CHEAP).encrypt("t0p")
    with pytest.raises(SecretError, match="no master password fits, or the text was ch") as caught:
        resolver("wrong").resolve(text)
    for word in ("t0p", "wrong", "right", inside(text)):
        assert word not in f"{caught.value} {caught.value.fix}"


@given(st.data(), st.sampled_from(["", "ms.authentication"]))
def test_no_changed_bit_passes_unnoticed(data, purpose):
    text = inside(Encryptor.of("testkey", CHEAP).encrypt("t0p", purpose))
    raw = bytearray(base64.urlsafe_b64decode(text[3:] + "=" * (-len(text[3:]) % 4)))
    # Of the cost only the lowest bits: a larger one is asked for by the next test.
    places = st.tuples(st.integers(3, len(raw) - 1), st.integers(0, 7))
    index, bit = data.draw(places | st.tuples(st.integers(0, 2), st.integers(0, 1)))
    raw[index] ^= 1 << bit
    changed = text[:3] + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    with pytest.raises(ValueError, match=r"ENC\(|changed"):
        decrypt(changed, "testkey", purpose)


@pytest.mark.parametrize(
    "head", [(30, 8, 1), (20, 255, 1), (19, 8, 1), (15, 8, 255), (0, 0, 0), (255,) * 3]
)
def test_a_text_that_asks_for_too_much_work_is_refused_before_it_is_done(head):
    raw = bytes(head) + bytes(60)
    text = "v1:" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    with pytest.raises(ValueError, match="changed or cut off"):
        decrypt(text, "testkey")


@pytest.mark.parametrize(
    "text",
    [
        "v1:",
        "v2:",
        "v2:AAAA",
        f"v2:{'A' * 44}{'_' * 22}",
        "v1:AAAA",
        "v1:%%%",
        "v1:ab cd",
        f"v1:{'A' * 61}",
    ],
)
def test_text_that_cannot_be_a_cipher_text_is_an_error(text):
    with pytest.raises(ValueError, match=r"ENC\(\.\.\.\)"):
        decrypt(text, "testkey")


def test_texts_of_one_encryptor_need_one_derivation():
    encryptor = Encryptor.of("testkey", CHEAP)
    texts = [encryptor.encrypt(str(index)) for index in range(5)]
    before = authenticated._derived.cache_info().misses
    assert [decrypt(inside(text), "testkey") for text in texts] == list("01234")
    assert authenticated._derived.cache_info().misses == before


def test_an_encryptor_does_not_print_its_password():
    assert "testkey" not in repr(Encryptor.of("testkey", CHEAP))


@pytest.mark.parametrize("strange", ["!!!!", "\n\n\n\n", "    "])
def test_no_character_inside_is_passed_over(strange):
    text = inside(OLD)
    with pytest.raises(ValueError, match="not base64"):
        decrypt(f"{text[:40]}{strange}{text[40:]}", "testkey")
