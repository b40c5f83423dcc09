"""Compare how two checkouts read job files: values, problems and notices, to the letter.

    .venv/bin/python scripts/compare_readings.py COMMIT [PREFIX ...]

reads jobs twice: with the dil of COMMIT, and with the dil of the working tree. It prints each kind
of difference once. The jobs are every job file of conf/ and tests/, and small jobs with one odd
setting each. The odd settings are of properties that begin with one of the prefixes, or of all
properties. Use this for changes of dil.config that must change no reading.
"""

from __future__ import annotations

import collections
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = {".conf", ".pull", ".job", ".yaml", ".yml"}
ENVIRONMENT = dict.fromkeys(
    ["API_KEY", "API_TOKEN", "API_USER", "API_PASSWORD", "DEMO_API", "DEMO_TOKEN", "DB_USER"], "x"
)
_COMMON = (
    "job.name=j\nextract.namespace=n\nextract.table.name=t\ndata.publisher.final.dir=/tmp/lake\n"
)
JOBS = {
    "http": f"{_COMMON}source.class=http\nms.source.uri=http://127.0.0.1/x\nms.extractor.class=json\n"
    'ms.watermark=[{"name":"system","type":"datetime","range":{"from":"2024-01-01","to":"-"}}]\n',
    "jdbc": f"{_COMMON}source.class=jdbc\nms.source.uri=jdbc:postgresql://h/d\n"
    "ms.jdbc.statement=select 1\nms.extractor.class=csv\nstate.store.enabled=false\n",
    "sftp": f"{_COMMON}source.class=sftp\nsource.conn.host=h\nms.source.uri=/in/*\n"
    "ms.extractor.class=csv\n",
}
# The texts are separated by blanks; none of them needs a blank.
ODD = (  # noqa: SIM905 - a list of quoted JSON texts reads worse
    "0 1 -1 5 999999999999 99999999999999999999 1.5 abc true FALSE yes {} [] [1,2] "
    '{"a":1} [{"name":"x"}] {"x":"y","z":{"q":[1]}} P1D PT1H30M P1M -P1D none hourly (unclosed '
    "yyyy-MM-dd qqqq UTC Mars/Olympus UTF-8 KLINGON 755 0999 10/s 3/1h file:///tmp/x hdfs://h:1/x "
    "s3://b/k append merge default env:API_KEY env:NOPE ENC(abc) http://x/{{y}} {bad relative/path "
    '{{v}} [["a"]] "text" null a,b'
).split()


def dump(target: Path, prefixes: tuple[str, ...]) -> None:
    """Write how the dil on the import path reads every job."""
    from dil.config.table import TABLE

    found = {
        str(path.relative_to(ROOT)): reading(path, {})
        for folder in ("conf", "tests")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SUFFIXES
    }
    # Both checkouts read the same folder: a digest contains the place of a relative path.
    folder = target.parent / "jobs"
    folder.mkdir(exist_ok=True)
    for kind, text in JOBS.items():
        path = folder / f"{kind}.conf"
        path.write_text(text, "utf-8")
        for name in (name for name in TABLE if name.startswith(prefixes)):
            for odd in ODD:
                found[f"{kind} {name}={odd}"] = reading(path, {name: odd})
    target.write_text(json.dumps(found), "utf-8")


def reading(path: Path, settings: dict[str, str]) -> dict[str, str]:
    """Return the values and notices of a job, or its problems; texts leave out the job's folder."""
    from dil.config import load
    from dil.errors import ConfigError

    def plain(value: object) -> str:
        return repr(value).replace(str(path.parent), "")

    try:
        loaded = load(path, overrides=settings, environ=ENVIRONMENT)
    except ConfigError as error:
        return {"problems": plain(error.problems)}
    job = loaded.job
    parts = ("planning", "source", "extraction", "conversion", "writing", "publishing", "running")
    return {
        **{name: plain(job.properties[name] or None) for name in job.properties},
        **{f"job.{part}": plain(getattr(job, part)) for part in (*parts, "state", "digest")},
        "notices": plain(loaded.notices),
    }


def main(commit: str, *prefixes: str) -> int:
    """Print each kind of difference once; return 1 if there is any."""
    differences: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        old = Path(name) / "checkout"
        git = shutil.which("git") or "git"
        add = [git, "worktree", "add", "-q", "--detach", str(old), commit]
        subprocess.run(add, cwd=ROOT, check=True)
        remove = [git, "worktree", "remove", "--force", str(old)]
        stack.callback(subprocess.run, remove, cwd=ROOT, check=True)
        read = []
        for number, tree in enumerate((old, ROOT)):
            target = Path(name) / f"{number}.json"
            command = [sys.executable, __file__, "--dump", str(target), *prefixes]
            environment = {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
            subprocess.run(command, cwd=tree, env=environment, check=True)
            read.append(json.loads(target.read_text("utf-8")))
    for job, before in read[0].items():
        after = read[1].get(job, {})
        for key in {*before, *after}:
            if before.get(key) != after.get(key):
                differences[key] += 1
                examples.setdefault(
                    key, f"{job}\n  before {before.get(key)}\n  now    {after.get(key)}"
                )
    print(f"{len(read[0])} jobs read, {sum(differences.values())} differences")
    for key, count in differences.most_common():
        print(f"{count} x {key}, such as {examples[key]}")
    return 1 if differences else 0


if __name__ == "__main__":
    if sys.argv[1] == "--dump":
        dump(Path(sys.argv[2]), tuple(sys.argv[3:]) or ("",))
    else:
        sys.exit(main(*sys.argv[1:]))
