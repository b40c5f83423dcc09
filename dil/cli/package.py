"""``dil package``: packs the code that executors need, as files for spark-submit."""

from __future__ import annotations

from pathlib import Path

import click

from dil.cli.packaging import write_code, write_libraries
from dil.cli.stdout import emit
from dil.observe.progress import counted


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
