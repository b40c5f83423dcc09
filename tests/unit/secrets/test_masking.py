"""What a process masks: the secrets that it has learned, and those of the task that it runs."""

from __future__ import annotations

import pytest

from dil.model.secret import Secret
from dil.secrets import learn, learned, masking
from dil.secrets.masking import masked


def test_a_mask_ends_with_its_task() -> None:
    with masking.masking(str.upper):
        with masking.masking(lambda _: "***"):
            assert masked("text") == "***"
        assert masked("text") == "TEXT"
    assert masked("text") == "text"


def test_a_process_forgets_only_the_oldest_of_many_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_learned", [()])
    monkeypatch.setattr(masking, "_KEPT", 3)
    for text in "abbcd":
        learn(Secret(text))
    assert learned() == tuple(map(Secret, "bcd"))


def test_an_empty_secret_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_learned", [()])
    learn(Secret(""))
    assert learned() == ()
