"""Activation, authentication and payload input (rules G38 and P14)."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from dil.errors import ConfigError, SourceContractError, SourceError
from dil.extraction.parameters import PageValues, ParameterScope, evaluate
from dil.extraction.secondary import (
    SecondaryAccess,
    inputs,
    read_activation,
    read_authentication,
    read_payload,
    read_secondary_inputs,
    read_validation,
)
from dil.model.interval import Interval
from dil.model.secondary import SecondaryInput, SecondaryRetry, SecondarySpec, SecondaryVariables
from dil.model.secret import Secret
from dil.model.settings import Parameter
from dil.model.work_unit import Reason, WorkUnit
from dil.secrets import SecretResolver
from dil.secrets.authenticated import Cost, Encryptor
from dil.storage import LocalFilesystem


def encrypted(text: str) -> str:
    """Return a text that the test's own resolver opens."""
    return f"ENC({text[::-1]})"


def decrypt(text: str, purpose: str) -> Secret:
    assert purpose.startswith("ms.secondary.input:")
    assert text.startswith("ENC("), "nothing else of what data holds may be resolved"
    return Secret(text[4:-1][::-1])


ACCESS = SecondaryAccess(lambda path: LocalFilesystem(), lambda filesystem, folder: None, decrypt)


class Folder:
    """Files of JSON lines, and what a job declares to read them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[SecondaryInput] = []

    def write(self, name: str, *rows: object) -> None:
        (self.path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def add(self, category: str, name: str, *fields: str, **members: object) -> None:
        self.entries.append(
            SecondaryInput(category=category, path=str(self.path / name), fields=fields, **members)  # type: ignore[arg-type]
        )

    def declared(self, *, parses_json: bool = False) -> SecondarySpec:
        return SecondarySpec(tuple(self.entries), parses_json)

    def read(self, wait=None):
        return read_secondary_inputs(self.declared(), ACCESS, wait)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_job_without_secondary_input_has_no_rows_and_no_variables(folder):
    assert folder.read().activation is None
    assert read_activation(folder.declared(), ACCESS) is None
    assert folder.read().variables == SecondaryVariables()


def test_activation_rows_are_compact_units_in_the_order_of_entries_and_files(folder):
    folder.write("b.json", {"id": 3, "x": 0}, {"id": "ä b", "x": 0})
    folder.write("a.json", {"id": 1, "x": 0})
    folder.add("activation", "b.json", "id")
    folder.add("activation", "", "x", "id")
    assert folder.read().activation == (
        '{"id":3}', '{"id":"ä b"}', '{"x":0,"id":1}', '{"x":0,"id":3}', '{"x":0,"id":"ä b"}',
    )  # fmt: skip
    assert read_activation(folder.declared(), ACCESS) == folder.read().activation


def test_of_equal_rows_the_first_counts_and_the_others_are_told(folder, caplog):
    folder.write("a.json", {"id": 1}, {"id": "1"}, {"id": 1})
    folder.add("activation", "", "id")
    folder.add("activation", "a.json", "id")
    read = folder.read()
    assert read.activation == ('{"id":1}', '{"id":"1"}')
    assert read.notes == (
        "the activation input repeats rows: 4 rows left out, because the first one counts",
    )
    assert read.notes[0] in caplog.text


def test_rows_without_fields_are_one_unit_and_that_is_no_repetition(folder):
    folder.write("a.json", {"id": 1}, {"id": 2})
    folder.add("activation", "")
    assert (folder.read().activation, folder.read().notes) == (("{}",), ())


def test_activation_input_without_rows_gives_no_units_and_says_so(folder, caplog):
    folder.add("activation", "", "id")
    assert folder.read().activation == ()
    assert "has no rows" in caplog.text


def test_more_units_than_planning_can_hold_are_an_error(folder, monkeypatch):
    monkeypatch.setattr(inputs, "_MOST_UNITS", 3)
    folder.write("a.json", *({"id": number} for number in (1, 1, 2, 3)))
    folder.write("b.json", {"id": 4})
    folder.add("activation", "a.json", "id")
    assert len(folder.read().activation) == 3
    folder.add("activation", "b.json", "id")
    with pytest.raises(SourceContractError, match="more than 3 different rows"):
        folder.read()


def test_encrypted_texts_stay_encrypted_in_units_and_are_plain_for_requests_only(folder):
    folder.write("a.json", {"id": encrypted("s3cret"), "n": 1})
    folder.add("activation", "", "id", "n", encrypted=True)
    read = folder.read()
    assert read.activation == ('{"id":"ENC(terc3s)","n":1}',)
    assert "s3cret" not in repr(read)
    assert read.variables.over(json.loads(read.activation[0])) == {"id": "s3cret", "n": 1}
    assert [secret.reveal() for secret in read.variables.secrets] == ["s3cret"]


@pytest.mark.parametrize("category", ["activation", "payload", "validation"])
def test_encrypted_texts_are_data_unless_the_entry_asks_for_them(folder, caplog, category):
    text = encrypted("another secret of the job")
    folder.write("a.json", {"id": text})
    folder.add(category, "", "id")
    read = folder.read()
    rows = {
        "activation": lambda: [read.variables.over(json.loads(unit)) for unit in read.activation],
        "payload": lambda: list(read_payload(folder.declared(), ACCESS, {})),
        "validation": lambda: list(read_validation(folder.declared(), ACCESS)),
    }[category]()
    assert rows == [{"id": text}]
    assert read.variables.secrets == ()
    assert '"encrypted": true' in caplog.text


def test_a_text_is_opened_in_the_field_of_the_entry_that_asks_and_in_no_other(folder):
    text = encrypted("s3cret")
    folder.write("a.json", {"id": text})
    folder.write("b.json", {"host": text})
    folder.add("activation", "a.json", "id", encrypted=True)
    folder.add("activation", "b.json", "host")
    read = folder.read()
    assert [read.variables.over(json.loads(unit)) for unit in read.activation] == [
        {"id": "s3cret"},
        {"host": text},
    ]


def test_a_text_that_moved_to_another_field_is_refused(folder):
    encryptor = Encryptor.of("master", Cost(2, 1, 1))
    token = encryptor.encrypt("t0p", "ms.secondary.input:token")
    resolver = SecretResolver({}, Path(), ("master",))
    access = SecondaryAccess(ACCESS.filesystem_for, ACCESS.live_files, resolver.resolve)
    folder.write("a.json", {"token": token, "old": encryptor.encrypt("old"), "name": token})
    folder.add("authentication", "a.json", "token", "old")
    found = read_authentication(folder.declared(), access)
    assert found == {"token": Secret("t0p"), "old": Secret("old")}

    folder.entries.clear()
    folder.add("authentication", "a.json", "name")
    with pytest.raises(ConfigError, match=r'"name" is ENC.*input:token') as caught:
        read_authentication(folder.declared(), access)
    assert "t0p" not in str(caught.value)


def test_a_plan_decrypts_nothing(folder):
    folder.write("a.json", {"id": encrypted("x")})
    folder.add("activation", "", "id")
    helpless = SecondaryAccess(
        ACCESS.filesystem_for, ACCESS.live_files, SecretResolver({}, Path()).resolve
    )
    assert read_activation(folder.declared(), helpless) == ('{"id":"ENC(x)"}',)


def test_a_text_that_no_master_password_opens_names_its_column_and_what_to_do(folder):
    folder.write("a.json", {"t": "ENC(abcd)"})
    folder.add("authentication", "", "t")
    helpless = SecondaryAccess(
        ACCESS.filesystem_for, ACCESS.live_files, SecretResolver({}, Path()).resolve
    )
    with pytest.raises(ConfigError, match=r'text of column "t" is ENC\(\.\.\.\)') as caught:
        read_secondary_inputs(folder.declared(), helpless)
    assert "encrypt.key.loc" in caught.value.problems[0].fix


def test_references_to_the_environment_or_to_files_in_data_stay_text(folder):
    folder.write("a.json", {"t": "env:HOME", "u": "file:/etc/passwd"})
    folder.add("authentication", "", "t", "u")
    given = folder.read().variables.authentication
    assert {name: secret.reveal() for name, secret in given.items()} == {
        "t": "env:HOME", "u": "file:/etc/passwd",
    }  # fmt: skip


def test_the_one_authentication_row_gives_variables_as_secret_text(folder):
    row = {"t": encrypted("s3cret"), "n": 5.0, "o": {"a": [1]}, "b": True, "s": "x"}
    folder.write("a.json", row)
    folder.add("authentication", "", *row)
    read = folder.read()
    assert read.activation is None
    assert "s3cret" not in repr(read)
    revealed = {name: text.reveal() for name, text in read.variables.authentication.items()}
    assert revealed == {"t": "s3cret", "n": "5", "o": '{"a":[1]}', "b": "true", "s": "x"}
    assert read_authentication(folder.declared(), ACCESS) == read.variables.authentication


def test_authentication_variables_replace_unit_members_and_travel_to_tasks(folder):
    folder.write("a.json", {"id": "auth", "t": "tok"})
    folder.add("authentication", "", "id", "t")
    variables = pickle.loads(pickle.dumps(folder.read().variables))
    unit = WorkUnit("s", 0, 9, Interval(0, 9), "activation", '{"id":"u","x":1}', Reason.NEW)
    scope = ParameterScope.of(unit, full_extract=True, secondary=variables)
    assert scope.variables == {"id": "auth", "x": 1, "t": "tok"}
    assert "tok" not in repr(scope)
    parameters = [Parameter(name="id", value="declared"), Parameter(name="q", value="{{t}}/{{x}}")]
    request = evaluate(parameters, scope, PageValues())
    assert request.parameters == {"id": "auth", "q": "tok/1"}, "t itself is not sent (rule G32)"


@pytest.mark.parametrize(("rows", "count"), [([], "no row"), ([{"t": 1}] * 3, "more than one row")])
def test_authentication_needs_exactly_one_row(folder, rows, count):
    folder.write("a.json", *rows)
    folder.add("authentication", "", "t")
    with pytest.raises(SourceContractError, match=f"has {count}; it must have exactly one"):
        folder.read()


def test_one_authentication_row_is_counted_over_all_entries(folder):
    folder.write("a.json", {"t": 1, "kind": "a"}, {"t": 2, "kind": "b"})
    folder.add("authentication", "", "t", filters={"kind": "a"})
    folder.add("authentication", "", "t", filters={"kind": "c"})
    assert folder.read().variables.authentication["t"].reveal() == "1"
    folder.add("authentication", "", "t", filters={"kind": "b"})
    with pytest.raises(SourceContractError, match="more than one row"):
        folder.read()


def test_a_null_in_the_authentication_row_is_an_error(folder):
    folder.write("a.json", {"t": None})
    folder.add("authentication", "", "t")
    with pytest.raises(SourceContractError, match='"t" of the authentication row is null'):
        folder.read()


class Later:
    """Waits by counting; what is to appear comes with the n-th wait."""

    def __init__(self, appears: int, folder: Folder) -> None:
        self.waited: list[float] = []
        self.appears = appears
        self.folder = folder

    def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        if len(self.waited) == self.appears:
            self.folder.write("late.json", {"id": 1})


@pytest.mark.parametrize("category", ["activation", "authentication"])
def test_with_a_retry_what_is_not_there_is_read_again_after_the_delay(folder, caplog, category):
    folder.add(category, "late.json", "id", retry=SecondaryRetry(7, 3))
    wait = Later(2, folder)
    read = folder.read(wait)
    assert wait.waited == [7, 7]
    assert "late.json does not exist; reading it again in 7 s (2 of 3)" in caplog.text
    assert bool(read.activation) or bool(read.variables.authentication)


def test_after_the_last_retry_it_is_an_error_that_names_the_path(folder):
    folder.add("activation", "late.json", "id", retry=SecondaryRetry(7, 3))
    wait = Later(9, folder)
    with pytest.raises(SourceError, match=r"is missing: .*late\.json does not exist"):
        folder.read(wait)
    assert wait.waited == [7, 7, 7]


def test_without_a_retry_or_for_a_plan_nothing_waits(folder):
    wait = Later(1, folder)
    folder.add("activation", "late.json", "id")
    with pytest.raises(SourceError):
        folder.read(wait)
    folder.entries.clear()
    folder.add("activation", "late.json", "id", retry=SecondaryRetry())
    with pytest.raises(SourceError):
        read_activation(folder.declared(), ACCESS)
    assert wait.waited == []


def test_an_interruption_ends_the_wait(folder):
    folder.add("activation", "late.json", "id", retry=SecondaryRetry())

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.read(interrupted)


class Replacing(LocalFilesystem):
    """A store whose file is replaced by another one after it was listed."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def files(self, path):
        listed = list(super().files(path))
        if (self.folder.path / "old.json").exists():
            (self.folder.path / "old.json").unlink()
            self.folder.write("new.json", {"id": 2})
        return iter(listed)


def test_a_file_that_its_job_replaces_meanwhile_is_no_error(folder):
    folder.write("a.json", {"id": 1})
    folder.write("old.json", {"id": 2})
    folder.add("activation", "", "id")
    access = SecondaryAccess(lambda path: Replacing(folder), ACCESS.live_files, decrypt)
    read = read_secondary_inputs(folder.declared(), access)
    assert (read.activation, read.notes) == (('{"id":1}', '{"id":2}'), ())


def test_payload_rows_are_read_with_variables_in_the_path_and_secrets_in_plain(folder):
    folder.write("eu-1.json", {"a": '{"x":1}', "b": encrypted('{"y":2}')})
    folder.write("more.json", {"c": None})
    folder.add("payload", "{{region}}-{{n}}.json", "a", "b", encrypted=True)
    folder.add("payload", "more.json", "c")
    folder.add("activation", "nowhere", "id")
    given = {"region": "eu", "n": 1}
    rows = list(read_payload(folder.declared(), ACCESS, given))
    assert rows == [{"a": '{"x":1}', "b": '{"y":2}'}, {"c": None}]
    parsed = list(read_payload(folder.declared(parses_json=True), ACCESS, given))
    assert parsed == [{"a": {"x": 1}, "b": {"y": 2}}, {"c": None}]


def test_a_payload_that_cannot_be_read_fails_the_task(folder):
    folder.add("payload", "{{region}}.json", "a", retry=SecondaryRetry())
    with pytest.raises(SourceContractError, match=r"uses \{\{region\}\}"):
        list(read_payload(folder.declared(), ACCESS, {}))
    with pytest.raises(SourceError, match=r"eu\.json does not exist"):
        list(read_payload(folder.declared(), ACCESS, {"region": "eu"}))
