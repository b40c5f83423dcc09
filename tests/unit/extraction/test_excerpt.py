from dil.extraction.excerpt import excerpt
from dil.model.secret import Secret
from dil.observe.redaction import redactor
from dil.secrets.masking import masking


def test_the_body_of_a_refusal_shows_what_it_says_of_the_error_and_no_other_value():
    body = b'{"error": {"message": "no such column", "param": "x"}, "token": "abc", "status": 400}'
    shown = excerpt(body, is_refusal=True)
    assert '"message": "no such column"' in shown
    assert '"status": 400' in shown
    assert "abc" not in shown
    assert '"x"' not in shown
    assert "no such column" not in excerpt(body)


def test_the_body_of_a_refusal_shows_the_name_of_the_error_and_no_long_word_that_may_be_a_token():
    for name in ("REQUEST_LIMIT_EXCEEDED", "unsupported_grant_type", "userRateLimitExceeded"):
        body = b'[{"errorCode": "%b"}]' % name.encode()
        assert name in excerpt(body, is_refusal=True)
        assert name not in excerpt(body)
    words = ("ABCDEFGHIJKLMNOPQRSTUVWX", "sk_live_abcdefghijklmnop9", "aBcDeFgHiJkLmNoPqRsTuVw")
    for word in words:
        assert word not in excerpt(b'{"error": "%b"}' % word.encode(), is_refusal=True)


def test_a_secret_is_masked_before_words_are_and_before_a_cut() -> None:
    mask = redactor([Secret("s3cret-of-the-job")])
    raw = "s3cret-of-the-job".encode("utf-16-le")
    for body in (
        b"key: " + raw.hex(" ", 2).encode(),
        b'{"error": "' + b"x " * 90 + raw.hex(" ").encode() + b'"}',
        b"denied " + raw,
    ):
        with masking(mask):
            shown = excerpt(body, is_refusal=True)
        assert "73" not in shown
        assert "s 3" not in shown


def test_values_in_single_quotes_are_masked_as_those_of_json() -> None:
    body = b"""{'error': 'no unit', 'name': "it's Zoe", 'n': 'O\\'Hara', 'a': ['Zoe', 7], 'b': 8}"""
    shown = excerpt(body)
    assert shown == "{'error': ***, 'name': ***, 'n': ***, 'a': [***, ***], 'b': ***}"
    shown = excerpt(body, is_refusal=True)
    assert "'error': 'no unit'" in shown
    assert not any(each in shown for each in ("it's", "Hara", "8"))
    assert excerpt(b"[{'id': 1, 'name': 'Zo") == "[{'id': ***, 'name': ***"
    assert excerpt(b"""{"name": 'Zoe', 'n': "Zoe"}""") == """{"name": ***, 'n': ***}"""
    assert excerpt(b"can't parse 'x', won't: 'y'") == "can't parse 'x', won't: 'y'"


def test_the_refusal_of_soap_begins_with_its_fault_behind_the_names_of_its_envelope() -> None:
    body = (
        b'<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/">'
        b'<s:Header><a:Action xmlns:a="http://www.w3.org/2005/08/addressing">urn:x</a:Action>'
        b"</s:Header><s:Body><s:Fault><faultcode>s:Client</faultcode>"
        b"<faultstring>size must be at most 100</faultstring></s:Fault></s:Body></s:Envelope>"
    )
    shown = excerpt(body, is_refusal=True)
    assert shown.startswith("<s:Fault>")
    assert "size must be at most 100" in shown
    assert excerpt(body).startswith("<?xml")
    echoed = b'{"password": "a<Fault>hunter2</Fault>"}'
    assert excerpt(echoed, is_refusal=True) == '{"password": ***}'
