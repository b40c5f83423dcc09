"""Real GnuPG, and jobs that read and dump through preprocessors over HTTP."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from dil import config
from dil.errors import ConfigError, SourceContractError
from dil.execution.shipping import plugin_modules
from dil.extraction.preprocessing import gpg_process
from dil.extraction.preprocessing.gpg import GpgDecryptProcessor, GpgEncryptProcessor
from dil.extraction.preprocessing.gpg_process import GpgHome
from dil.model.report import RunReport, RunStatus
from dil.spi.preprocessor import PreprocessorContext
from tests.dumps import dump_story, dumped, give
from tests.jobs import write_job
from tests.preprocessing import through
from tests.servers.http_server import Fault, HttpServer
from tests.servers.programs import needed_program
from tests.servers.rows import Dataset
from tests.stories import day

NOW = day(4)
PHRASE = "sésame öffne dich"
DATA = os.urandom(100_000) + b"id,name\n" * 200_000
DIL = "com.linkedin.cdi.preprocessor."


@dataclass(frozen=True)
class Keys:
    """A key pair in files, made by the real program, and its id."""

    public: str
    secret: str
    id: str


@contextmanager
def gpg_home() -> Iterator[Callable[..., bytes]]:
    """Yield the real program with a home of its own: arguments in, output out."""
    program = needed_program("gpg")
    with tempfile.TemporaryDirectory(prefix="dil-keys-") as home:
        # Else the agent measures for seconds how often it can hash a pass phrase.
        Path(home, "gpg-agent.conf").write_text("s2k-count 65536\n")

        def gpg(*arguments: str, phrase: str = "") -> bytes:
            command = [program, "--homedir", home, "--batch", "--pinentry-mode", "loopback",
                       "--passphrase", phrase, *arguments]  # fmt: skip
            return subprocess.run(command, check=True, capture_output=True, input=DATA).stdout

        yield gpg
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    public, secret = (tmp_path_factory.mktemp("keys") / name for name in ("public", "secret"))
    with gpg_home() as gpg:
        key = ("lake@acme.example", "default", "default", "never")
        gpg("--quick-generate-key", *key, phrase=PHRASE)
        listed = gpg("--list-keys", "--with-colons").decode().splitlines()
        public.write_bytes(gpg("--export"))
        secret.write_bytes(gpg("--export-secret-keys", phrase=PHRASE))
    number = next(line.split(":")[4] for line in listed if line.startswith("pub"))
    return Keys(str(public), str(secret), number)


@pytest.fixture
def source() -> Iterator[HttpServer]:
    with HttpServer(Dataset.generate(1)) as server:
        yield server


@pytest.fixture(autouse=True)
def no_home_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # pytest makes it now, and not in the folder that goes
    # Short, because the path of a socket is; of its own, because other tests run at the same time.
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        assert list(Path(folder).glob("dil-gpg-*")) == []


# The real program


def test_a_message_under_a_pass_phrase_comes_back() -> None:
    needed_program("gpg")
    sealed = through(
        GpgEncryptProcessor, DATA, size=5000, keystore_password=PHRASE, cipher="AES256"
    )
    assert DATA[:200] not in sealed
    assert through(GpgDecryptProcessor, sealed, size=5000, keystore_password=PHRASE) == DATA
    with pytest.raises(SourceContractError, match="GnuPG failed"):
        through(GpgDecryptProcessor, sealed, keystore_password="another")


def test_a_message_for_a_key_comes_back(keys: Keys) -> None:
    sealed = through(GpgEncryptProcessor, DATA, keystore_path=keys.public, key_name=keys.id)
    unlock = {"keystore_path": keys.secret, "keystore_password": PHRASE}
    assert through(GpgDecryptProcessor, sealed, size=3000, **unlock) == DATA
    with pytest.raises(SourceContractError, match="GnuPG failed"):
        through(GpgDecryptProcessor, sealed, keystore_path=keys.public, keystore_password="x")


def test_a_key_that_is_not_in_the_file_is_an_error(keys: Keys) -> None:
    with pytest.raises(SourceContractError, match="No public key"):
        through(GpgEncryptProcessor, b"x", keystore_path=keys.public, key_name="0" * 16)
    with pytest.raises(ConfigError, match="is not there"):
        through(GpgDecryptProcessor, b"x", keystore_path=f"{keys.public}.none")


def test_a_wrong_pass_phrase_a_missing_one_and_a_missing_key_are_told_apart(keys: Keys) -> None:
    sealed = through(GpgEncryptProcessor, b"x", keystore_path=keys.public, key_name=keys.id)
    locked = through(GpgEncryptProcessor, b"x", keystore_password=PHRASE)
    for message, given, told in (
        (sealed, {"keystore_path": keys.secret, "keystore_password": "x"}, "pass phrase is wrong"),
        (locked, {"keystore_password": "x"}, "pass phrase is wrong"),
        (sealed, {"keystore_path": keys.secret}, "a pass phrase is needed"),
        (locked, {"keystore_path": keys.secret}, "a pass phrase is needed"),
        (sealed, {"keystore_path": keys.public, "keystore_password": PHRASE}, "key is missing"),
    ):
        with pytest.raises(SourceContractError, match=told) as caught:
            through(GpgDecryptProcessor, message, **given)
        assert ("keystore_path" if "key is" in told else "keystore_password") in caught.value.fix


def test_a_signed_message_needs_the_key_of_its_signer_beside_the_secret_key(
    tmp_path: Path,
) -> None:
    alone, both = tmp_path / "alone", tmp_path / "both"
    with gpg_home() as gpg:
        for name in ("lake", "sender"):
            gpg("--quick-generate-key", f"{name}@acme.example", "future-default", "default")
        message = ["--trust-model", "always", "--recipient", "lake@acme.example", "--encrypt"]
        signed = gpg("--local-user", "sender@acme.example", "--sign", *message)
        alone.write_bytes(gpg("--export-secret-keys", "lake@acme.example"))
        both.write_bytes(alone.read_bytes() + gpg("--export", "sender@acme.example"))
    with pytest.raises(SourceContractError) as caught:
        through(GpgDecryptProcessor, signed, keystore_path=str(alone))
    assert "gpg --export" in caught.value.fix
    assert through(GpgDecryptProcessor, signed, keystore_path=str(both)) == DATA


@pytest.fixture(scope="module")
def sealed() -> bytes:
    needed_program("gpg")
    return through(GpgEncryptProcessor, DATA, keystore_password=PHRASE)


@pytest.mark.parametrize("part", [0.0, 0.0001, 0.01, 0.5, 0.99999])
def test_a_message_that_was_cut_is_an_error(sealed: bytes, part: float) -> None:
    with pytest.raises(SourceContractError):
        through(GpgDecryptProcessor, sealed[: int(len(sealed) * part)], keystore_password=PHRASE)


def test_a_message_that_was_cut_in_the_packet_of_its_key_is_said_to_end_too_early(
    keys: Keys,
) -> None:
    message = through(GpgEncryptProcessor, b"x", keystore_path=keys.public, key_name=keys.id)
    unlock = {"keystore_path": keys.secret, "keystore_password": PHRASE}
    with pytest.raises(SourceContractError, match="ends too early"):
        through(GpgDecryptProcessor, message[:80], **unlock)


def test_a_message_that_was_changed_or_has_something_behind_it_is_an_error(sealed: bytes) -> None:
    changed = bytearray(sealed)
    changed[-3000] ^= 1
    for wrong in (bytes(changed), sealed + b"x", sealed + sealed, b"plain text\n" * 100):
        with pytest.raises(SourceContractError):
            through(GpgDecryptProcessor, wrong, keystore_password=PHRASE)


@pytest.fixture(scope="module")
def armored() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix="dil-armor-") as home:
        command = [needed_program("gpg"), "--homedir", home, "--batch", "--pinentry-mode",
                   "loopback", "--passphrase", PHRASE, "--symmetric", "--armor"]  # fmt: skip
        yield subprocess.run(command, input=DATA, check=True, capture_output=True).stdout
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_an_armored_message_comes_back(armored: bytes, ends: bytes) -> None:
    message = armored.replace(b"\n", ends) + ends * 3
    assert through(GpgDecryptProcessor, message, size=5000, keystore_password=PHRASE) == DATA


def test_an_armored_message_without_its_end_or_with_something_around_it_is_an_error(
    armored: bytes,
) -> None:
    end = armored.index(b"-----END")
    for wrong in (armored[:end], armored + b"1,a\n", armored * 2, b"1,a\n" + armored):
        with pytest.raises(SourceContractError, match="PGP data"):
            through(GpgDecryptProcessor, wrong, keystore_password=PHRASE)


def test_what_is_not_encrypted_does_not_pass_as_decrypted() -> None:
    program = needed_program("gpg")
    stored = subprocess.run([program, "--store"], input=DATA, capture_output=True, check=True)
    with pytest.raises(SourceContractError):
        through(GpgDecryptProcessor, stored.stdout, keystore_password=PHRASE)


def test_a_pass_phrase_is_on_no_command_line(sealed: bytes) -> None:
    made = GpgDecryptProcessor(PreprocessorContext("gpg", {"keystore_password": PHRASE}))
    stream = made.process(cast("BinaryIO", io.BytesIO(sealed)))
    try:
        listing = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, check=True)
    finally:
        stream.close()
        made.close()
    # Other tests make keys at the same time, with a phrase on a command line of their own.
    ours = [line for line in listing.stdout.decode().splitlines() if "dil-gpg-" in line]
    assert any("--decrypt" in line for line in ours)
    assert not any(PHRASE in line for line in ours)


def test_the_home_of_a_killed_process_goes_with_its_agent_and_others_stay(keys: Keys) -> None:
    script = (
        "import sys, tempfile, time\n"
        f"tempfile.tempdir = {tempfile.gettempdir()!r}\n"
        "from dil.extraction.preprocessing.gpg_process import GpgHome\n"
        "home = GpgHome()\n"
        "home.take_keys(sys.argv[1])\n"
        "print(home.command()[2], flush=True)\n"
        "time.sleep(600)\n"
    )

    def started() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", script, keys.secret], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    (alive, used), (killed, left) = started(), started()
    try:
        agent = ["gpg-connect-agent", "--homedir", str(left), "--no-autostart", "/bye"]
        subprocess.run(["gpgconf", "--homedir", left, "--launch", "gpg-agent"], check=True)
        killed.kill()
        killed.wait(30)
        assert left.is_dir()

        GpgHome().close()

        assert not left.exists()
        assert used.is_dir()
        found = subprocess.run(agent, check=False, capture_output=True)
        assert b"no gpg-agent running" in found.stderr
    finally:
        for process in (alive, killed):
            process.kill()
            process.communicate(timeout=30)
    GpgHome().close()
    assert not used.exists()


def test_a_home_that_another_process_sweeps_past_while_it_is_made_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = gpg_process.fcntl.flock

    def sweep_first(*arguments: Any) -> None:
        monkeypatch.setattr(gpg_process.fcntl, "flock", lock)
        GpgHome().close()
        lock(*arguments)

    monkeypatch.setattr(gpg_process.fcntl, "flock", sweep_first)
    home = GpgHome()
    assert Path(home.command()[2]).is_dir()
    home.close()


# Whole jobs


def only_failure(report: RunReport) -> str:
    assert report.status is RunStatus.FAILED
    (failure,) = report.failures
    return failure.error


def test_a_dump_is_decrypted_unpacked_and_loses_the_endings(
    keys: Keys, source: HttpServer, tmp_path: Path
) -> None:
    packed = gzip.compress(DATA)
    message = through(GpgEncryptProcessor, packed, keystore_path=keys.public, key_name=keys.id)
    give(source, "sales.csv.gz.gpg", message, "application/octet-stream")
    parameters = (
        f'{{"GpgProcessor":{{"keystore_path":"{keys.secret}","keystore_password":"{PHRASE}"}}}}'
    )
    story = dump_story(
        tmp_path, source, "sales.csv.gz.gpg",
        ms__extract__preprocessors=f"{DIL}GpgDecryptProcessor,{DIL}GunzipProcessor",
        ms__extract__preprocessor__parameters=parameters,
    )  # fmt: skip
    assert story.run(NOW).status is RunStatus.SUCCESS
    assert dumped(tmp_path) == {"sales.csv": DATA}


def test_a_dump_is_encrypted_after_all_else_and_its_name_says_so(
    source: HttpServer, tmp_path: Path
) -> None:
    needed_program("gpg")
    give(source, "sales.csv.gz", gzip.compress(DATA))
    story = dump_story(
        tmp_path, source, "sales.csv.gz",
        ms__extract__preprocessors=f"{DIL}GpgProcessor,gunzip",
        ms__extract__preprocessor__parameters=(
            f'{{"{DIL}GpgProcessor":{{"action":"Encrypt","keystore_password":"{PHRASE}"}}}}'
        ),
    )  # fmt: skip
    assert story.run(NOW).status is RunStatus.SUCCESS
    ((name, body),) = dumped(tmp_path).items()
    assert name == "sales.csv.gpg"
    assert through(GpgDecryptProcessor, body, keystore_password=PHRASE) == DATA


@pytest.mark.parametrize("kind", ["short_body", "reset_body"])
def test_a_connection_that_is_cut_is_told_as_that_and_not_as_a_bad_key(
    sealed: bytes, source: HttpServer, tmp_path: Path, kind: str
) -> None:
    give(source, "x.gpg", sealed, "application/pgp-encrypted")
    source.faults.append(Fault(kind, path="/files/x.gpg"))
    story = dump_story(
        tmp_path, source, "x.gpg", ms__extract__preprocessors="gpg-decrypt",
        ms__extract__preprocessor__parameters=(
            f'{{"gpg-decrypt":{{"keystore_password":"{PHRASE}"}}}}'
        ),
    )  # fmt: skip
    error = only_failure(story.run(NOW))
    assert "GnuPG" not in error
    assert PHRASE not in error
    assert dumped(tmp_path) == {}


def test_rows_are_read_through_preprocessors_whatever_the_packing_is_called(
    source: HttpServer, tmp_path: Path
) -> None:
    body = b'{"h":["id","name"],"d":[[1,"a"],[2,"b"]]}'
    give(source, "x", gzip.compress(body), "application/gzip")
    story = dump_story(
        tmp_path, source, "x", ms__extractor__class="json", extract__table__name="orders",
        ms__extractor__target__file__name="", ms__data__field="results",
        ms__extract__preprocessors=f"gunzip,{DIL}AggregatedJsonProcessor",
        ms__extract__preprocessor__parameters=(
            '{"AggregatedJsonProcessor":{"header":"h","data":"d"}}'
        ),
        writer__output__format="JSON",
    )  # fmt: skip
    assert story.run(NOW).status is RunStatus.SUCCESS
    (file,) = (tmp_path / "lake" / "shop" / "orders").glob("part-*.json")
    assert file.read_text() == '{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n'


def test_damage_behind_the_rows_fails_the_work_unit(source: HttpServer, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"id,name\n1,a\n"))
    packed[-5] ^= 1
    give(source, "x", bytes(packed), "text/csv")
    story = dump_story(
        tmp_path, source, "x", ms__extractor__class="csv", extract__table__name="orders",
        ms__extract__preprocessors="gunzip", ms__extractor__target__file__name="",
        ms__csv='{"columnHeaderIndex":0}',
    )  # fmt: skip
    error = only_failure(story.run(NOW))
    assert "gunzip: the gzip data is damaged" in error
    assert error.count("/files/") == 1


def test_a_bomb_is_stopped_long_before_the_disk_is_full(source: HttpServer, tmp_path: Path) -> None:
    give(source, "x.gz", gzip.compress(gzip.compress(bytes(300 << 20))))
    changes = {"ms__extract__preprocessors": "gunzip,gunzip"}
    error = only_failure(dump_story(tmp_path, source, "x.gz", **changes).run(NOW))
    assert "gunzip made more than 250 times" in error
    changes |= {"ms__extract__expansion__max__ratio": "0",
                "ms__extract__expansion__max__bytes": "1000000"}  # fmt: skip
    error = only_failure(dump_story(tmp_path / "b", source, "x.gz", **changes).run(NOW))
    assert "more than 1,000,000 bytes" in error


# Classes of one's own

OWN = """
import io
from dil.spi.preprocessor import Preprocessor

class Upper(Preprocessor):
    @classmethod
    def check(cls, parameters):
        return ["word is missing"] if "word" not in parameters else []

    @classmethod
    def file_name(cls, name):
        return name + ".upper"

    def process(self, stream):
        if self.context.text("word") == "fail":
            raise ValueError("no such word")
        return io.BytesIO(stream.read().upper() + self.context.text("word").encode())
"""


@pytest.mark.parametrize(
    ("word", "outcome"), [("!", {"x.upper": b"ABC!"}), ("fail", "preprocessor shout:Upper failed")]
)
def test_a_class_beside_the_job_file_is_found_and_its_failures_name_it(
    source: HttpServer, tmp_path: Path, word: str, outcome: object
) -> None:
    (tmp_path / "shout.py").write_text(OWN)
    give(source, "x", b"abc")
    story = dump_story(
        tmp_path, source, "x", ms__extract__preprocessors="shout:Upper",
        ms__extract__preprocessor__parameters=f'{{"shout:Upper":{{"word":"{word}"}}}}',
    )  # fmt: skip
    try:
        job = story.job()
        report = story.run(NOW, job)
        assert plugin_modules(job) == ("shout",)
    finally:
        sys.path.remove(str(tmp_path.resolve()))
        sys.modules.pop("shout", None)
    if isinstance(outcome, dict):
        assert dumped(tmp_path) == outcome
    else:
        assert outcome in only_failure(report)
        assert "ValueError: no such word" in report.failures[0].error


# Start-up


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ms.extract.preprocessors": "gunzipp"}, 'Did you mean "gunzip"'),
        ({"ms.extract.preprocessors": "gpg-decrypt"}, "neither keystore_path nor"),
        ({"ms.extract.preprocessors": "gpg-encrypt"}, "which prepares dumped files"),
        (
            {
                "ms.extract.preprocessors": "zip",
                "ms.extract.preprocessor.parameters": '{"zip":{"memberr":"a"}}',
            },
            'has no parameter "memberr"',
        ),
        ({"ms.extractor.class": "filedump"}, "is required by a file dump"),
        ({"data.publisher.job.type": "NoopPublisher"}, "rows that are not published are lost"),
    ],
)
def test_what_cannot_be_is_said_before_the_run(
    tmp_path: Path, changes: dict[str, str], why: str
) -> None:
    given = {name.replace(".", "__"): text for name, text in changes.items()}
    with pytest.raises(ConfigError, match=why):
        config.load(write_job(tmp_path, "http://x", **given), environ={})


@pytest.mark.parametrize(
    "changes",
    [
        {"ms__publish__mode": "replace"},
        {"ms__state__cursor__commit": "page"},
    ],
)
def test_what_is_for_rows_is_refused_for_a_dump(
    tmp_path: Path, source: HttpServer, changes: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"file dump|dumps files"):
        dump_story(tmp_path, source, "x", **changes).job()


def test_a_plan_does_without_the_pass_phrase_and_a_run_does_not(
    tmp_path: Path, source: HttpServer
) -> None:
    story = dump_story(
        tmp_path, source, "x", ms__extract__preprocessors="gpg-decrypt",
        ms__extract__preprocessor__parameters=(
            '{"gpg-decrypt":{"keystore_password":"env:NOBODY_SET_THIS"}}'
        ),
    )  # fmt: skip
    with pytest.raises(ConfigError, match="NOBODY_SET_THIS"):
        story.job()
    loaded = config.load(tmp_path / "orders.conf", environ={}, secrets=False)
    assert loaded.job.extraction.preprocessors[0].name == "gpg-decrypt"


def test_a_pass_phrase_shows_in_no_text_of_the_job(tmp_path: Path, source: HttpServer) -> None:
    job = dump_story(
        tmp_path, source, "x", ms__extract__preprocessors="gpg-decrypt",
        ms__extract__preprocessor__parameters=(
            f'{{"gpg-decrypt":{{"keystore_password":"{PHRASE}"}}}}'
        ),
    ).job()  # fmt: skip
    assert PHRASE not in repr(job)
