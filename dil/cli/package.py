"""``dil package``: packs the code that executors need, as files for spark-submit.

``spark-submit --py-files`` takes the zip of our code. Clusters whose Python lacks the libraries
take the archive of libraries with ``--archives FILE#dil-libraries`` and
``spark.executorEnv.PYTHONPATH=dil-libraries``.
"""

from __future__ import annotations

import contextlib
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib import metadata, util
from pathlib import Path

import click

from dil.cli.stdout import emit
from dil.errors import DilError, WriteError
from dil.observe.progress import counted

DISTRIBUTION = "dil-spark"
_PACKAGES = ("dil", "connectors")
_WITH_SPARK = frozenset({"pyspark", "py4j"})
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)""")


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), default=Path("dist/dil.zip"),
    show_default=True, help="Zip of our packages, for spark-submit --py-files.",
)  # fmt: skip
@click.option(
    "--libraries", type=click.Path(path_type=Path, dir_okay=False),
    help="Also write an archive of the libraries that dil needs, for spark-submit --archives.",
)  # fmt: skip
@click.option(
    "--module", "modules", type=click.Path(path_type=Path, exists=True), multiple=True,
    help="A module or package of your own (a connector) to put into the zip; may be repeated.",
)  # fmt: skip
def package(out: Path, libraries: Path | None, modules: tuple[Path, ...]) -> int:
    """Write what executors must be shipped, and print the spark-submit command that ships it."""
    count = write_code(out, modules)
    emit(f"{out}: {counted(count, 'file')}\n")
    command = ["spark-submit --master spark://HOST:7077", f"--py-files {out}"]
    if libraries is not None:
        names = write_libraries(libraries)
        emit(f"{libraries}: {', '.join(names)}\n")
        command.append(f"--archives {libraries}#dil-libraries")
        command.append("--conf spark.executorEnv.PYTHONPATH=dil-libraries")
    submit = Path(__file__).resolve().parents[1] / "submit.py"
    emit(" \\\n  ".join([*command, f"{submit} JOB.conf\n"]))
    return 0


def write_code(target: Path, extra: Iterable[Path] = ()) -> int:
    """Write our packages, their metadata and the user's modules; return the number of files.

    Raises:
        WriteError: the zip cannot be written, or a module cannot be read.
    """
    count = 0
    with _written(target), zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in sorted([*_code(), *_metadata(), *_own(extra)], key=lambda item: item[1]):
            archive.write(path, name)
            count += 1
    return count


def write_libraries(target: Path) -> tuple[str, ...]:
    """Write the installed libraries that dil needs, except Spark's own; return their names.

    The libraries have compiled code: executors need the same platform and Python minor version.

    Raises:
        WriteError: the archive cannot be written.
    """
    found: dict[str, frozenset[str]] = {}
    _collect(DISTRIBUTION, frozenset(), found)
    names = tuple(sorted(found.keys() - {DISTRIBUTION}))
    with _written(target), tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for name in names:
            distribution = metadata.distribution(name)
            for file in distribution.files or ():
                path = Path(str(distribution.locate_file(file)))
                if ".." not in file.parts and path.suffix != ".pyc" and path.is_file():
                    archive.add(path, str(file))
    return names


@contextlib.contextmanager
def _written(target: Path) -> Iterator[None]:
    """Make the target's folder; turn errors of the file system into errors of dil."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        # The file of the error may also be a module of the user, which is only read.
        place = error.filename or target
        raise WriteError(
            f"{target} cannot be written: {place}: {error.strerror or error}",
            "Name a file in a folder that this user may write to, with --out or --libraries.",
        ) from error


def _code() -> Iterator[tuple[Path, str]]:
    for name in _PACKAGES:
        spec = util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise DilError(f"package {name} is not installed", "Run `make setup`.")
        root = Path(spec.submodule_search_locations[0])
        for path in root.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield path, f"{name}/{path.relative_to(root).as_posix()}"


def _metadata() -> Iterator[tuple[Path, str]]:
    """Yield the metadata files: their entry points name the connectors, also inside a zip."""
    distribution = metadata.distribution(DISTRIBUTION)
    for file in distribution.files or ():
        if file.parts[0].endswith(".dist-info") and file.name in {"METADATA", "entry_points.txt"}:
            yield Path(str(distribution.locate_file(file))), str(file)


def _own(extra: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for path in extra:
        if path.is_dir():
            for module in path.rglob("*.py"):
                yield module, f"{path.name}/{module.relative_to(path).as_posix()}"
        else:
            yield path, path.name


def _collect(name: str, extras: frozenset[str], found: dict[str, frozenset[str]]) -> None:
    """Collect the installed libraries that a distribution needs with these extras, recursively."""
    if name in found and extras <= found[name]:
        return
    found[name] = found.get(name, frozenset()) | extras
    for line in metadata.distribution(name).requires or ():
        match = _REQUIREMENT.match(line)
        only_for = _EXTRA.search(line)
        if match is None or (only_for and only_for.group(1) not in extras):
            continue
        required = match.group(1).lower().replace("_", "-")
        asked = frozenset(each.strip() for each in (match.group(2) or "").split(",") if each)
        if required not in _WITH_SPARK and _is_installed(required):
            _collect(required, asked, found)


def _is_installed(name: str) -> bool:
    """Return whether a library is installed; a missing library belongs to another platform."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
