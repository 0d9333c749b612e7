"""What the package asks to be installed: no release with a vulnerability that is known."""

import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

# The first release without the vulnerability, by package and advisory.
FIXED = {
    "aiohttp": {
        "CVE-2025-69223": "3.13.3",
        "CVE-2026-22815": "3.13.4",
        "CVE-2026-34513": "3.13.4",
        "CVE-2026-34525": "3.13.4",
        "CVE-2026-34993": "3.14.0",
        "CVE-2026-47265": "3.14.0",
        "CVE-2026-54273": "3.14.1",
        "CVE-2026-54275": "3.14.1",
        "CVE-2026-54280": "3.14.1",
        "CVE-2026-59881": "3.14.2",
        "CVE-2026-69243": "3.14.2",
        "CVE-2026-69244": "3.14.3",
    },
    "click": {"CVE-2026-7246": "8.3.3"},
    "django": {
        "CVE-2025-64459": "5.2.8",
        "CVE-2026-3902": "5.2.13",
        "CVE-2026-5766": "5.2.14",
        "CVE-2026-48588": "5.2.16",
        "CVE-2026-15307": "5.2.17",
    },
    "fastapi": {"CVE-2024-24762": "0.109.1"},
    "flask": {"CVE-2025-47278": "3.1.1", "CVE-2026-27205": "3.1.3"},
    "joserfc": {
        "CVE-2026-48990": "1.6.7",
        "CVE-2026-49852": "1.6.8",
        "GHSA-5jhw-7jv7-qcqq": "1.7.2",
        "CVE-2026-75509": "1.7.3",
    },
    "pydantic": {"CVE-2024-3772": "2.4.0"},
    "pytest": {"CVE-2025-71176": "9.0.3"},
    "pyyaml": {"CVE-2020-14343": "5.4"},
    "starlette": {
        "CVE-2025-62727": "0.49.1",
        "CVE-2026-48710": "1.0.1",
        "CVE-2026-48818": "1.1.0",
        "CVE-2026-54282": "1.3.0",
        "CVE-2026-54283": "1.3.1",
    },
    "uvicorn": {"CVE-2020-7695": "0.11.7"},
}


lowest_versions = runpy.run_path(str(ROOT / "tools/lowest_versions.py"))["lowest_versions"]


def requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    groups = project["dependency-groups"].values()
    named = {one for group in (project["project"]["dependencies"], *extras, *groups) for one in group}
    return [Requirement(one) for one in sorted(named)]


def lowest(requirement):
    (bound,) = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
    return bound


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_no_release_with_a_known_vulnerability_satisfies_a_requirement(requirement):
    fixed = FIXED.get(canonicalize_name(requirement.name), {})
    assert not [advisory for advisory, version in fixed.items() if lowest(requirement) < Version(version)]


def test_advisories_are_those_of_packages_that_are_required():
    assert set(FIXED) <= {canonicalize_name(requirement.name) for requirement in requirements()}


def test_what_is_installed_for_development_satisfies_every_requirement():
    lines = (ROOT / "constraints.txt").read_text().split()
    chosen = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    wanted = [one for one in requirements() if canonicalize_name(one.name) in chosen]
    assert len(wanted) > 20
    assert not [str(one) for one in wanted if chosen[canonicalize_name(one.name)] not in one.specifier]


def test_lowest_versions_become_constraints_that_keep_their_markers():
    assert lowest_versions(
        ["rich>=14", "any-llm-sdk[openai,anthropic]>=1.40", "uvloop>=0.22.1; sys_platform != 'win32'"]
    ) == [
        "rich==14",
        "any-llm-sdk==1.40",
        "uvloop==0.22.1; sys_platform != 'win32'",
    ]


def test_requirement_without_a_lowest_version_is_refused():
    with pytest.raises(ValueError, match="does not have the form name>=version"):
        lowest_versions(["rich"])


def test_every_dependency_and_extra_has_a_lowest_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    assert len(lowest_versions([*project["dependencies"], *extras])) > 10
