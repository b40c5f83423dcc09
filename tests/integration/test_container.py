"""The image of the Dockerfile, built and asked where a Docker daemon answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import dil

ROOT = Path(__file__).parents[2]
TAG = f"dil-spark-test-{os.getpid()}"

pytestmark = pytest.mark.long


def docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *words], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Return the tag of the image; the tests are skipped where nothing can build one."""
    if shutil.which("docker") is None:
        pytest.skip("there is no docker command here")
    asked = docker("info", "--format", "{{.ServerVersion}}")
    if asked.returncode:
        pytest.skip(f"no Docker daemon answers: {asked.stderr.strip()}")
    built = docker("build", "--tag", TAG, ".")
    assert built.returncode == 0, built.stderr
    yield TAG
    docker("image", "rm", TAG)


def test_the_image_has_this_version_and_java(image: str) -> None:
    told = docker("run", "--rm", image, "--version")
    assert told.returncode == 0, told.stderr
    assert dil.__version__ in told.stdout
    java = docker("run", "--rm", "--entrypoint", "java", image, "-version")
    assert java.returncode == 0, java.stderr


def test_a_job_of_the_image_validates(image: str) -> None:
    mounted = ("--volume", f"{ROOT / 'conf'}:/work/conf:ro")
    told = docker("run", "--rm", *mounted, image, "validate", "conf/jobs/own_api.conf")
    assert told.returncode in {0, 2}, told.stderr
    assert "internal error" not in told.stderr
