"""Canaries in every place of a job, echoed by the server in all escapes: nothing keeps one."""

from __future__ import annotations

import base64
import html
import io
import json
import quopri
from pathlib import Path
from urllib.parse import quote

import pytest

from dil import config
from dil.cli.main import main
from dil.model.job import Job
from dil.observe import logs
from dil.observe.redaction import redactor, secrets_of
from dil.observe.report import redacted, report_json, report_text
from dil.secrets.authenticated import Cost, Encryptor
from tests.jobs import write_job
from tests.marks import some_long
from tests.servers.http_server import HttpServer, Reply
from tests.stories import Story, day

pytestmark = pytest.mark.slow

CANARIES = [f'c4n/{number:02d}&q"Zk+{number:02d}=<x>' for number in range(30)]
PARAMETERS, HEADERS, FIELDS = CANARIES[:12], CANARIES[12:18], CANARIES[18:26]
BEARER, PASSWORD, ENCRYPTED, IN_FILE = CANARIES[26:]


def disguises(text: str) -> list[str]:
    raw = text.encode()
    found = [
        text,
        text.upper(),
        text.lower(),
        json.dumps(text)[1:-1],
        json.dumps(text)[1:-1].replace("/", "\\/"),
        json.dumps(json.dumps(text))[1:-1],
        "".join(f"\\u{ord(each):04x}" for each in text),
        text.replace("&", "\\u0026"),
        html.escape(text),
        html.escape(html.escape(text)),
        "".join(f"&#{ord(each)};" for each in text),
        "".join(f"&#x{ord(each):x};" for each in text),
        quote(text),
        quote(text, safe=""),
        quote(quote(text, safe=""), safe=""),
        raw.hex(),
        raw.hex().upper(),
        base64.b64encode(raw).decode(),
        base64.b64encode(base64.b64encode(raw)).decode(),
        text.replace('"', '""').replace("'", "''"),
        json.dumps(text.replace('"', '""'))[1:-1],
        "".join(f"\\{each:03o}" for each in raw),
        "".join(f"%u{ord(each):04X}" for each in text),
        "".join(f"\\u{{{ord(each):x}}}" for each in text),
        "".join(f"\\U{ord(each):08X}" for each in text),
        "".join(f"={each:02X}" for each in raw),
        quopri.encodestring(raw, quotetabs=True).decode().replace("=3D", "=3d"),
        ", ".join(f"0x{each:02x}" for each in raw),
        "{" + ",".join(f"0x{each:02X}" for each in raw) + "}",
        str(list(raw)),
        json.dumps({"type": "Buffer", "data": list(raw)}, separators=(",", ":")),
        " ".join(map(str, raw)),
        "\0".join(text) + "\0",
        json.dumps("\0".join(text))[1:-1],
        repr(text.encode("utf-16-le"))[2:-1],
        text.encode("utf-16-le").hex(),
        text.encode("utf-16-be").hex(" "),
        base64.b64encode(text.encode("utf-16-le")).decode(),
        base64.b64encode(text.encode("utf-16")).decode(),
        base64.b32encode(raw).decode(),
        base64.b32encode(b"user:" + raw).decode().lower(),
        f"{text[:9]}\n{text[9:]}",
        f"{text[:9]}\r\n {text[9:]}",
        json.dumps(f"{text[:9]}\n{text[9:]}")[1:-1],
        f"{text[:9]}=\n{text[9:]}",
        "".join(f"\\{each}" for each in text),
    ]
    return list(dict.fromkeys(found))


FORMS = [form.encode() for canary in CANARIES for form in disguises(canary)]


class SecretStory(Story):
    """A job with a canary in each place that may hold a secret."""

    def __init__(self, folder: Path, source: HttpServer, environ: dict[str, str]) -> None:
        super().__init__(folder, source)
        self.environ = environ

    def job(self, **changes: str) -> Job:
        (self.folder / "master").write_text("master password\n")
        (self.folder / "secret.txt").write_text(IN_FILE)
        row = {f"field{number}": value for number, value in enumerate(FIELDS)}
        (self.folder / "token.json").write_text(json.dumps(row) + "\n")
        encrypted = Encryptor.of("master password", Cost(log_n=4)).encrypt(ENCRYPTED)
        given = [{"name": f"p{n}", "value": f"env:P{n}"} for n in range(len(PARAMETERS))]
        known = [{"name": name} for name in row]
        facts = {
            "encrypt.key.loc": "master",
            "ms.authentication": json.dumps(
                {"method": "bearer", "encryption": "none", "token": "env:BEARER"}
            ),
            "ms.http.request.headers": json.dumps(
                {f"X-Own-{number}": f"env:H{number}" for number in range(len(HEADERS))}
                | {"X-File": "file:secret.txt"}
            ),
            "source.conn.username": "reader",
            "source.conn.password": encrypted,
            "ms.secondary.input": json.dumps(
                [{"path": "token.json", "fields": list(row), "category": "authentication"}]
            ),
            "ms.parameters": json.dumps(
                [
                    *given,
                    *known,
                    {"name": "unit"},
                    {"name": "since", "type": "watermark", "value": "low"},
                    {"name": "until", "type": "watermark", "value": "high"},
                    {"name": "password", "value": "env:PASSWORD"},
                ]
            ),
            "ms.session.key.field": "",
        }
        path = write_job(self.folder, self.source.url, **{**facts, **changes})
        return config.load(path, environ=self.environ).job


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    given = {f"P{number}": value for number, value in enumerate(PARAMETERS)}
    given |= {f"H{number}": value for number, value in enumerate(HEADERS)}
    given |= {"BEARER": BEARER, "PASSWORD": PASSWORD}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


COMMANDS = [
    ("validate",),
    ("validate", "--json"),
    ("plan",),
    ("plan", "--json"),
    ("explain",),
    ("explain", "--json"),
    ("preview",),
    ("runs", "list"),
    ("runs", "list", "--json"),
    ("state", "show"),
    ("state", "show", "--json"),
    ("state", "log"),
    ("state", "log", "--json"),
    ("state", "verify", "--full"),
    ("runs", "clean"),
    ("runs", "finish"),
    ("runs", "abandon"),
]


@pytest.mark.parametrize("policy", some_long(["full", "successful"], "successful"))
def test_no_canary_is_in_any_sink(
    tmp_path: Path,
    source: HttpServer,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    policy: str,
) -> None:
    story = SecretStory(tmp_path / "job", source, environ)
    (tmp_path / "job").mkdir()
    echo = "\n".join(form for canary in CANARIES for form in disguises(canary))
    # Each canary in another form before any in the next one: not all are asked for.
    forms = [disguises(canary) for canary in CANARIES]
    turns = [
        each[(number + turn) % len(each)]
        for turn in range(max(map(len, forms)))
        for number, each in enumerate(forms)
    ]
    bodies = [echo, *(f"denied: {form}" for form in turns)]
    replies = [
        Reply(body.encode(), status=400 if number % 2 else 403, content_type="text/plain")
        for number, body in enumerate(bodies)
    ]
    source.script("/records", *replies)
    job = story.job(job__commit__policy=policy)
    streams = [io.StringIO(), io.StringIO()]
    sinks: dict[str, bytes] = {}
    for number, stream in enumerate(streams):
        logs.configure(level="DEBUG", json_lines=bool(number), stream=stream,
                       secrets=secrets_of(job))  # fmt: skip
        for run in range(20):
            report = story.run(day(2), job)
            shown = redacted(report, redactor(secrets_of(job)))
            sinks[f"report {number} {run}"] = json.dumps(report_json(shown)).encode()
            sinks[f"text {number} {run}"] = report_text(shown).encode()
            story.clock += 1000
    for words in COMMANDS:
        capsys.readouterr()
        path = str(tmp_path / "job" / "orders.conf")
        size = 2 if words[0] in {"runs", "state"} else 1
        main([*words[:size], path, *words[size:]])
        told = capsys.readouterr()
        sinks[" ".join(words)] = (told.out + told.err).encode()
    for number, stream in enumerate(streams):
        sinks[f"log {number}"] = stream.getvalue().encode()
    inputs = {"token.json", "secret.txt"}
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name not in inputs:
            sinks[str(file.relative_to(tmp_path))] = file.read_bytes()

    assert len(source.requests) > 2 * len(forms[0]), "not each form was sent"
    assert len(sinks) >= 30
    found = {(name, form) for name, held in sinks.items() for form in FORMS if form in held}
    assert found == set()
