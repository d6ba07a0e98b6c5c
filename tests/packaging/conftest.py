"""An sdist built from a copy of the tree, and a wheel built from that sdist."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    """An sdist built from a copy of the tree, which is left as it is."""
    copy = tmp_path_factory.mktemp("tree") / "tree"
    names = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "emu"]
    copy.mkdir()
    for name in [*names, "kernels", "comm"]:
        subprocess.run(["cp", "-a", str(ROOT / name), str(copy / name)], check=True, timeout=60)
    build(copy, "build_sdist")
    (archive,) = (copy / "out").glob("*.tar.gz")
    return archive


def build(source, hook):
    """Call the build back-end as a front end would, in a process of its own."""
    code = f"import setuptools.build_meta as b; b.{hook}('out')"
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": "9.9.9"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env=environment,
        text=True,
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="session")
def wheel(sdist, tmp_path_factory):
    """A wheel built from the sdist, as an installer does where there is no wheel."""
    folder = tmp_path_factory.mktemp("from_sdist")
    with tarfile.open(sdist) as archive:
        # 3.11.4 and later know filters, and 3.12 warns where none is given.
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **filters)
    (tree,) = folder.iterdir()
    build(tree, "build_wheel")
    (archive,) = (tree / "out").glob("*.whl")
    return archive
