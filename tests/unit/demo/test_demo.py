from pathlib import Path

import demo
import pytest


def test_a_folder_of_an_earlier_demo_is_emptied(tmp_path: Path) -> None:
    home = demo.emptied(tmp_path / "home")
    (home / "lake").mkdir()

    demo.emptied(home)

    assert not (home / "lake").exists()


def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")

    with pytest.raises(demo.DemoError, match="not empty"):
        demo.emptied(tmp_path)

    assert (tmp_path / "mine").exists()
