"""Jobs that dump files, over HTTP: each activation row is a file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.servers.http_server import HttpServer, Reply
from tests.stories import Story

NO_ROWS = {
    "ms__extractor__class": "filedump",
    "ms__data__field": "",
    "ms__output__schema": "",
    "ms__session__key__field": "",
    "ms__parameters": "",
    "extract__table__name": "",
    "ms__work__unit__partition": "none",
    "task__retry__intervalinsec": "0",
}


def names_as_units(names: list[str]) -> str:
    """Return a watermark with one work unit for each name."""
    units = [{"name": name} for name in names]
    return json.dumps(
        [
            {"name": "system", "type": "datetime", "range": {"from": "2020-01-01", "to": "P0D"}},
            {"name": "unit", "type": "unit", "units": units},
        ]
    )


def dump_story(folder: Path, source: HttpServer, *names: str, **changes: str) -> Story:
    """Return a job that dumps ``/files/<name>`` to a file of that name, for each name."""
    facts = {
        **NO_ROWS,
        "ms__watermark": names_as_units(list(names)),
        "ms__source__uri": f"{source.url}/files/{{{{name}}}}",
        "ms__extractor__target__file__name": "{{name}}",
        **changes,
    }
    return Story(folder, source, **facts)


def serve(source: HttpServer, **files: bytes) -> None:
    """Let the source have these files; a double underscore in a name is a dot."""
    for name, body in files.items():
        give(source, name.replace("__", "."), body)


def give(source: HttpServer, name: str, body: bytes, content_type: str = "text/plain") -> None:
    """Let the source have a file of any name."""
    source.script(f"/files/{name}", Reply(body, content_type=content_type))


def dumped(folder: Path) -> dict[str, bytes]:
    """Return what a reader of the final directory sees, by relative path."""
    root = folder / "lake"
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in ("_dil", "_staging")
    }


def listed(folder: Path) -> dict[str, int]:
    """Return the files of the newest manifest with their sizes, by relative path."""
    meta = folder / "lake" / "_dil"
    hint = json.loads((meta / "current.json").read_text())
    manifest = json.loads((meta / hint["manifest"]).read_text())
    prefix = (folder / "lake").as_uri() + "/"
    return {file["uri"].removeprefix(prefix): file["bytes"] for file in manifest["files"]}
