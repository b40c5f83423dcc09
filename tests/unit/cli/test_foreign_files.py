"""Files of other users beside and above a job cannot take part in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dil.cli.main import main

NOBODY = 65534
TEXT = """\
job.name=orders
source.class=http
ms.extractor.class=json
ms.source.uri=https://shop.test/orders
extract.table.name=orders
data.publisher.final.dir=out
ms.timezone=UTC
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def belongs_to_another(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def is_open_to_all(path: Path) -> None:
    path.chmod(0o666)


def is_open_to_a_group(path: Path) -> None:
    os.chown(path, -1, 1)
    path.chmod(0o664)


OTHERS = [
    pytest.param(belongs_to_another, marks=as_root),
    is_open_to_all,
    pytest.param(is_open_to_a_group, marks=as_root),
]


class Attack:
    """A job two folders below a ``.properties`` file that names code, which leaves a trace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = folder / "home/jobs/orders.conf"
        self.job.parent.mkdir(parents=True)
        self.job.write_text(TEXT)
        self.planted = folder / "planted.properties"
        self.trace = folder / "executed"
        (folder / "code").mkdir()
        (folder / "code/planted_code.py").write_text(f"open({str(self.trace)!r}, 'w').close()\n")
        self.planted.write_text(
            f"ms.plugin.path={folder / 'code'}\nconverter.classes=planted_code:Converter\n"
        )

    def validate(self) -> int:
        return main(["validate", str(self.job)])


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


@pytest.mark.parametrize("others_write", OTHERS)
def test_a_properties_file_that_others_wrote_is_named_and_not_inherited(
    attack: Attack, others_write: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    others_write(attack.planted)

    assert attack.validate() == 0

    assert f"warning: {attack.job}: does not inherit {attack.planted}" in capsys.readouterr().out
    assert not attack.trace.exists()


def test_a_link_to_a_file_of_the_author_is_not_inherited_where_others_made_it(
    attack: Attack,
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives links away")
    real = attack.planted.rename(attack.folder / "real")
    attack.planted.symlink_to(real)
    os.lchown(attack.planted, NOBODY, NOBODY)

    assert attack.validate() == 0
    assert not attack.trace.exists()


@pytest.mark.parametrize("mark", [".git", ".dil-project"])
def test_nothing_above_the_mark_of_a_project_is_inherited(attack: Attack, mark: str) -> None:
    (attack.folder / "home" / mark).touch()

    assert attack.validate() == 0
    assert not attack.trace.exists()


@as_root
def test_a_mark_of_another_user_makes_no_project_and_is_named(
    attack: Attack, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = attack.folder / ".dil-project"
    mark.touch()
    belongs_to_another(mark)
    belongs_to_another(attack.planted)

    assert attack.validate() == 0
    assert not attack.trace.exists()
    told = capsys.readouterr()
    assert f"does not take {mark} as the mark of its project: it belongs to" in told.out + told.err


@as_root
def test_in_a_project_files_of_colleagues_are_inherited_but_not_from_an_open_folder(
    attack: Attack, capsys: pytest.CaptureFixture[str]
) -> None:
    (attack.folder / ".dil-project").touch()
    attack.planted.write_text("job.description=ours\n")
    is_open_to_a_group(attack.planted)
    belongs_to_another(attack.planted)

    assert attack.validate() == 0
    assert f"inherits {attack.planted}" in capsys.readouterr().out

    attack.folder.chmod(0o1777)
    assert attack.validate() == 0
    assert f"does not inherit {attack.planted}" in capsys.readouterr().out


@as_root
def test_a_file_of_ones_own_may_be_written_by_the_group_of_its_owner_alone(
    attack: Attack, capsys: pytest.CaptureFixture[str]
) -> None:
    attack.planted.write_text("job.description=ours\n")
    os.chown(attack.planted, NOBODY, NOBODY)  # nogroup is not nobody's own group
    os.chown(attack.job, NOBODY, NOBODY)
    attack.planted.chmod(0o664)  # what a umask of 002 leaves
    assert attack.validate() == 0
    assert "does not inherit" in capsys.readouterr().out

    os.chown(attack.planted, 1, 1)  # Debian's daemon, of the group daemon
    os.chown(attack.job, 1, 1)
    assert attack.validate() == 0
    assert f"inherits {attack.planted}" in capsys.readouterr().out


@as_root
def test_a_second_properties_file_of_another_user_stops_no_job(attack: Attack) -> None:
    attack.planted.write_text("job.description=ours\n")
    (attack.folder / "second.properties").touch()
    belongs_to_another(attack.folder / "second.properties")

    assert attack.validate() == 0


@as_root
def test_the_files_of_a_jobs_author_are_inherited_by_whoever_runs_it(
    attack: Attack, capsys: pytest.CaptureFixture[str]
) -> None:
    attack.planted.write_text("job.description=ours\n")
    belongs_to_another(attack.job)
    belongs_to_another(attack.planted)

    assert attack.validate() == 0
    assert f"inherits {attack.planted}" in capsys.readouterr().out


def own_class(folder: Path) -> str:
    """Write a module with a converter, which leaves a trace; return the properties that name it."""
    (folder / "own_of_foreign_files.py").write_text(
        "from pathlib import Path\n"
        "from dil.spi.converter import Converter\n"
        "Path(__file__).with_name('executed').touch()\n"
        "class Own(Converter):\n"
        "    def convert(self, batches):\n"
        "        return batches\n"
    )
    return "converter.classes=own_of_foreign_files:Own\n"


@pytest.fixture(autouse=True)
def own_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_of_foreign_files", raising=False)


@pytest.mark.parametrize("command", ["validate", "plan", "check", "run"])
@pytest.mark.parametrize("place", ["beside the job", "ms.plugin.path"])
def test_no_class_is_imported_from_a_folder_that_everybody_may_write_to(
    tmp_path: Path, place: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, classes = tmp_path / "jobs", tmp_path / "classes"
    jobs.mkdir()
    classes.mkdir()
    chosen = jobs if place == "beside the job" else classes
    text = TEXT + own_class(chosen)
    if chosen == classes:
        text += f"ms.plugin.path={classes}\n"
    (jobs / "orders.conf").write_text(text)
    chosen.chmod(0o1777)

    assert main([command, str(jobs / "orders.conf")]) == 2

    error = capsys.readouterr().err
    assert f"would import classes from {chosen}, which may be changed by everybody" in error
    assert not (chosen / "executed").exists()

    chosen.chmod(0o755)
    assert main(["validate", str(jobs / "orders.conf")]) == 0
    assert (chosen / "executed").exists()


def test_a_job_without_classes_of_its_own_takes_no_module_beside_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    job = tmp_path / "orders.conf"
    job.write_text(TEXT)

    assert main(["validate", str(job)]) == 0
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("module", ["dil", "dil.cli"])
def test_a_command_imports_nothing_from_the_directory_it_is_started_in(
    tmp_path: Path, module: str
) -> None:
    for name in ("click", "chardet", "msgspec", "connectors", "secrets"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')\n")
    (tmp_path / "orders.conf").write_text(TEXT)

    done = subprocess.run(
        [sys.executable, "-m", module, "validate", "orders.conf"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "job orders is valid" in done.stdout
