from dil.extraction.excerpt import excerpt


def test_the_body_of_a_refusal_shows_what_it_says_of_the_error_and_no_other_value():
    body = b'{"error": {"message": "no such column", "param": "x"}, "token": "abc", "status": 400}'
    shown = excerpt(body, is_refusal=True)
    assert '"message": "no such column"' in shown
    assert '"status": 400' in shown
    assert "abc" not in shown
    assert '"x"' not in shown
    assert "no such column" not in excerpt(body)
