"""Secrets never leave, however they were encoded on the way."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dil.config.table import TABLE
from dil.model.authentication import Authentication
from dil.model.job import ClassRef, ExtractionSpec, Job, SourceSpec
from dil.model.properties import Properties
from dil.model.secret import MASK, Secret
from dil.model.settings import Parameter
from dil.observe.redaction import OWN_NAMES, redactor, secrets_of
from dil.secrets import learn, learned
from tests.jobs import bare_job

CANARY = 'p/ss w+rd="ünï"&%'


def masked(text: str, *secrets: str) -> str:
    return redactor([Secret(secret) for secret in secrets])(text)


@pytest.mark.parametrize(
    "form",
    [
        CANARY,
        quote(CANARY),
        quote(CANARY, safe=""),
        quote(CANARY, safe="").lower(),
        quote_plus(CANARY),
        base64.b64encode(CANARY.encode()).decode(),
        base64.b64encode(CANARY.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(CANARY.encode()).decode(),
        quote(base64.b64encode(CANARY.encode()).decode(), safe=""),
        json.dumps(CANARY),
        json.dumps(CANARY, ensure_ascii=False),
        repr(CANARY),
    ],
)
def test_a_secret_is_masked_in_every_form_it_travels_in(form: str) -> None:
    assert masked(f"GET /x?k=[{form}] failed", CANARY).replace('"', "").replace("'", "") == (
        f"GET /x?k=[{MASK}] failed"
    )


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "someone"])
@pytest.mark.parametrize("tail", ["", "x", "xy"])
def test_a_password_is_masked_inside_the_base64_of_a_longer_text(user: str, tail: str) -> None:
    password = "correct horse"
    sent = base64.b64encode(f"{user}:{password}{tail}".encode()).decode()

    answer = masked(f"sent {sent}", password)

    assert MASK in answer
    raw = answer.removeprefix("sent ").split(MASK)
    assert all(len(piece) <= 16 for piece in raw), "only the neighbours may remain"


def test_a_secret_that_begins_with_another_one_goes_as_a_whole() -> None:
    assert masked("token abcd-efgh", "abcd", "abcd-efgh") == f"token {MASK}"


def test_a_short_secret_is_masked_only_where_it_stands_alone() -> None:
    assert masked("pin 42, row 1420", "42") == f"pin {MASK}, row 1420"


def test_an_empty_secret_masks_nothing() -> None:
    assert masked("nothing to hide", "", "  ") == "nothing to hide"


def test_each_line_of_a_private_key_is_secret() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----\n"

    assert masked("bad line MIIEvQIBADANBgkqhkiG in key", key) == f"bad line {MASK} in key"


def test_the_password_of_a_secret_url_is_secret_on_its_own() -> None:
    url = "postgresql://loader:p%40ss1234@db/state"

    assert masked("login with p@ss1234 refused", url) == f"login with {MASK} refused"
    assert masked("login with p%40ss1234 refused", url) == f"login with {MASK} refused"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Basic dXNlcg==", "Authorization: ***"),
        ("{'Authorization': 'Bearer a.b', 'A': 1}", "{'Authorization': ***, 'A': 1}"),
        ("api_key=k1&page=2", "api_key=***&page=2"),
        ('{"x-api-key": "k1", "a": 1}', '{"x-api-key": ***, "a": 1}'),
        ("Set-Cookie: sid=1; Path=/\nnext line", "Set-Cookie: ***\nnext line"),
        ("GET /y?page=2&access_token=abc&z=1", "GET /y?page=2&access_token=***&z=1"),
        ("jdbc at postgresql://me:pw@db:5432/x", "jdbc at postgresql://me:***@db:5432/x"),
        ("sent Bearer abc.def-123456", "sent Bearer ***"),
        ("Bearer authentication is not offered", "Bearer authentication is not offered"),
        ("job orders: 3 of 10 done", "job orders: 3 of 10 done"),
    ],
)  # fmt: skip
def test_credentials_in_well_known_places_are_masked_without_knowing_them(
    text: str, expected: str
) -> None:
    assert masked(text) == expected


@settings(max_examples=60, deadline=None)
@given(
    secret=st.text(min_size=4, max_size=30).filter(lambda text: len(text.strip()) >= 4),
    before=st.text(max_size=10),
    after=st.text(max_size=10),
)
def test_no_text_ever_shows_the_secret(secret: str, before: str, after: str) -> None:
    answer = masked(f"{before}{secret}{after}", secret)

    # A secret that is part of the mask, or of the mask and its neighbours, says nothing new.
    pieces = answer.split(MASK)
    assert all(secret not in piece for piece in pieces)


def job_with(**properties: object) -> Job:
    return bare_job(
        properties=Properties(properties),
        source=SourceSpec(ClassRef("m", "C"), "http://x", password=Secret("source-password")),
        extraction=ExtractionSpec(
            ClassRef("m", "E"),
            parameters=(
                Parameter(
                    name="auth",
                    type="object",
                    value=[Parameter(name="key", value=Secret("nested-parameter"))],
                ),
            ),
        ),
    )


def test_every_secret_of_a_job_is_found_once_wherever_it_sits() -> None:
    job = job_with(
        plain="text",
        password=Secret("source-password"),
        empty=Secret(""),
        model=Authentication(method="bearer", encryption="none", token=Secret("model-token")),
        nested={"a": [{"b": Secret("in-json")}]},
    )

    assert {secret.reveal() for secret in secrets_of(job)} == {
        "source-password",
        "nested-parameter",
        "model-token",
        "in-json",
    }
    assert len(secrets_of(job)) == 4


def test_of_the_state_servers_address_only_the_passwords_are_masked() -> None:
    job = job_with(
        **{
            "state.store.db.url": Secret("jdbc:postgresql://dil:in%2Furl@db:5432/dil"),
            "state.store.db.user": Secret("dil"),
            "state.store.db.password": Secret("hunter2"),
        }
    )
    text = 'the state store postgresql://db:5432/dil: dil cannot log in, user "dil"'
    redact = redactor(secrets_of(job))

    assert redact(text) == text
    assert redact("tried hunter2, in/url and in%2Furl") == f"tried {MASK}, {MASK} and {MASK}"
    assert redact("postgresql://dil:other@db/dil?sslpassword=abc") == (
        f"postgresql://dil:{MASK}@db/dil?sslpassword={MASK}"
    )


@pytest.mark.parametrize("name", ["ms.warehouse.url", "ms.iceberg.catalog.uri"])
def test_of_the_addresses_of_tables_only_the_passwords_are_masked(name: str) -> None:
    file = job_with(**{name: Secret("sqlite:////data/lake.db")})
    server = job_with(**{name: Secret("postgresql://dil:in%2Furl@db:5432/dil")})

    opened = "sqlite:////data/lake.db: unable to open database file"
    assert redactor(secrets_of(file))(opened) == opened
    refused = 'postgresql://dil@db:5432/dil: password authentication failed for user "dil"'
    redact = redactor(secrets_of(server))
    assert redact(refused) == refused
    assert redact("in/url and in%2Furl") == f"{MASK} and {MASK}"


def test_a_private_key_is_masked_and_the_path_of_its_file_is_not() -> None:
    for text, shown in (("/keys/id", "/keys/id"), ("~/id", "~/id"), ("PuTTY-key", MASK)):
        redact = redactor(secrets_of(job_with(**{"source.conn.private.key": Secret(text)})))
        assert redact(f"tried {text}") == f"tried {shown}"


def test_a_password_that_is_the_users_name_is_masked() -> None:
    job = job_with(
        **{"state.store.db.user": Secret("dil"), "state.store.db.password": Secret("dil")}
    )

    assert redactor(secrets_of(job))("user dil") == f"user {MASK}"


def test_what_the_process_learns_later_is_masked_by_redactors_made_before() -> None:
    redact = redactor([Secret("known-before")])
    assert redact("known-before learned-later") == f"{MASK} learned-later"

    learn(Secret("learned-later"))

    assert redact("known-before learned-later") == f"{MASK} {MASK}"
    assert redact(base64.b64encode(b"learned-later").decode()) == MASK


def test_an_empty_text_is_no_secret_to_learn() -> None:
    before = learned()
    learn(Secret(""))

    assert learned() is before


def test_only_the_newest_of_very_many_learned_secrets_are_kept() -> None:
    for number in range(500):
        learn(Secret(f"token-number-{number:03}"))

    assert Secret("token-number-499") in learned()
    assert len(learned()) == 200


DISGUISES = {
    "a slash of PHP": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text).replace("/", "\\/")),
    "JSON codes": lambda text: "".join(f"\\u{ord(each):04X}" for each in text),
    "some JSON codes": lambda text: text.replace("&", "\\u0026").replace("/", "\\u002f"),
    "HTML names": html.escape,
    "HTML in HTML": lambda text: html.escape(html.escape(text)),
    "HTML codes": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "HTML hex codes": lambda text: "".join(f"&#x{ord(each):X};" for each in text),
    "percent": lambda text: quote(text, safe=""),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent for all": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of more": lambda text: base64.b64encode(f"user:{text}:x".encode()).decode(),
    "base64 on lines": lambda text: "\n".join(base64.b64encode(text.encode()).decode()),
    "base64 in JSON": lambda text: (
        base64.b64encode(f"??>{text}".encode()).decode().replace("/", "\\/")
    ),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "hex": lambda text: text.encode().hex(),
    "upper hex": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "bytes of Python": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "upper case": str.upper,
    "lower case": str.lower,
    "percent of JSON": lambda text: quote(json.dumps(text.replace("&", "\\u0026")), safe=""),
}
# What a decoder of the form inside would not read any more.
NOT_AROUND_OTHERS = {"base64 on lines", "upper case", "lower case"}
WORDS = ["s3cr&t/Pa\"ss'w<o>rd", "tok+en/=AbC%41 z", "pa$$\\word\\n1", "Grüße&Küsse/1"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=list(DISGUISES))
def test_no_escape_hides_a_secret(word: str, disguise) -> None:
    redact = redactor([Secret(word)])
    hidden = disguise(word)
    told = redact(f"the server said {hidden} and more")
    assert hidden not in told
    assert word.casefold() not in told.casefold()
    assert "***" in told


@given(
    st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs", "Cc")), min_size=8),
    st.lists(st.sampled_from(sorted(DISGUISES.keys() - NOT_AROUND_OTHERS)), min_size=1, max_size=2),
)
@example("0000012\\", ["HTML codes"])
@example("0000012\ufdd0", ["HTML codes"])
def test_whatever_escapes_are_nested_the_secret_is_not_shown(word: str, names: list[str]) -> None:
    hidden = word
    for name in names:
        hidden = DISGUISES[name](hidden)
    told = redactor([Secret(word)])(f"<<{hidden}>>")
    assert word not in told
    if len(set(word.strip())) > 3 and word.strip() == word:
        assert hidden not in told or hidden in "***"


def test_base64_behind_mixed_escapes_is_masked_beside_plainer_base64() -> None:
    """No layer of escapes has the first base64, so only a pattern finds it."""
    mixed = r"b3Jh\b%6DdlLTcz"
    plainer = base64.b64encode("orange-73".encode("utf-16-le")).decode()
    told = redactor([Secret("orange-73")])(f"{mixed} {plainer}")
    assert told.startswith("*** ***")


@pytest.mark.parametrize("cut", range(7, 20))
def test_the_beginning_of_a_secret_before_a_cut_is_masked(cut: int) -> None:
    word = "abcdefghijklmnopqrstuvwxyz"
    for ending in ("", "...", "…", "... (more)"):
        told = redactor([Secret(word)])(f"token {word[:cut]}{ending}")
        assert word[:6] not in told


def test_ordinary_texts_stay_as_they_are() -> None:
    redact = redactor([Secret("correct-horse-battery"), Secret("tiger")])
    for text in (
        "100% of \\path\\to &amp; https://x/?a=1%20b&c=d... done",
        "Tigers are no secret, and 0x7469 is no cat...",
        "dGVzdA== abc:def correct horse",
    ):
        assert redact(text) == text


# Secrets that are words of ours


ADVICE = (
    "ms.authentication: holds a secret in plain text; `dil secrets encrypt --key FILE --for"
    " source.conn.password` makes ENC(...), the master password is in encrypt.key.loc"
)


@pytest.mark.parametrize("word", ["secret", "password", "source", "encrypt", "Secret", "key"])
def test_a_secret_that_is_a_word_of_ours_leaves_our_advice_whole(word: str) -> None:
    assert masked(ADVICE, word) == ADVICE


@pytest.mark.parametrize(
    "text",
    [
        'the answer begins: {"error": "wrong password [secret]"}',
        "GET https://secret.test/secret?x=secret answered 401",
        "ms.secret.managers=secret",
        "the secret is secret",
        "the secret secret",
        'a secret "secret"',
        "ms.parameters.secret and my.ms.parameters=secret",
        f"{ADVICE} secret",
        base64.b64encode(b"user:secret").decode(),
    ],
)
def test_a_secret_that_is_a_word_of_ours_is_masked_wherever_the_text_is_not_ours(text: str) -> None:
    shown = masked(text, "secret")
    for ours in ("holds a secret in", "dil secrets encrypt"):
        shown = shown.replace(ours, "")
    assert "secret" not in shown
    assert MASK in shown


def test_a_longer_secret_around_our_words_goes_as_a_whole() -> None:
    assert masked("x-ms.parameters-y of ms.parameters", "x-ms.parameters-y", "parameters") == (
        f"{MASK} of ms.parameters"
    )


def test_our_own_places_cannot_be_forged() -> None:
    for text in ("\ue0d10\ue0d2 secret", "ms.parameters \ue0d1 secret"):
        assert "secret" not in masked(text, "secret")


def test_names_of_the_reference_that_have_words_of_secrets_are_ours() -> None:
    words = ("secret", "passw", "token", "key", "user", "auth")
    names = {name for name in TABLE if any(word in name for word in words)}
    assert names <= OWN_NAMES
    assert {name for name in OWN_NAMES if "." in name} <= set(TABLE)
