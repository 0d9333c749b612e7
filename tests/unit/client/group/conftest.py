"""What every test of configuration files needs."""

import pytest


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch, tmp_path):
    """Give a folder and an environment without any configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DRAGOMAN_CONFIG", "UNSET", "EMPTY"):
        monkeypatch.delenv(name, raising=False)
