"""What `dragoman init` writes installs in a fresh environment, and passes its tests there."""

from __future__ import annotations

import sys

import pytest

from interop.wild.environments import FOLDER, ROOT
from interop.wild.test_bundle import run

pytestmark = pytest.mark.e2e


@pytest.mark.covers("CMD-22")
@pytest.mark.parametrize("kind", ["server", "client", "chat"])
def test_a_project_installs_and_passes_its_tests_in_a_fresh_environment(tmp_path, kind):
    run(sys.executable, "-m", "dragoman", "init", "tea-house", "--kind", kind, cwd=tmp_path)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path / "wheels", ROOT, cwd=tmp_path)
    (wheel,) = (tmp_path / "wheels").glob("dragoman-*.whl")
    uv, python = FOLDER / "uv/bin/uv", tmp_path / "env/bin/python"
    settings = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_LINK_MODE": "copy"}
    run(uv, "venv", "--python", sys.executable, tmp_path / "env", cwd=tmp_path, **settings)
    project = tmp_path / "tea-house"
    run(uv, "pip", "install", "--python", python, wheel, project, "pytest", cwd=tmp_path, **settings)
    assert "passed" in run(python, "-m", "pytest", "-q", cwd=project)
    # The installed module is the project's own file, so that its image needs nothing else.
    if kind == "server":
        assert "tea-house" in run(python, "-c", "import server; print(server.server.name)", cwd=tmp_path)
