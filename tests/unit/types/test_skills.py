import msgspec
import pytest

from dragoman import types
from dragoman.types import decode
from dragoman.types.skills import ListSkillsResult, ReadDirectoryRequestParams, Skill, SkillResource

URI = "skill://pdf/SKILL.md"


def test_a_skill_lists_its_files_or_makes_them() -> None:
    listed = Skill(uri=URI, frontmatter={"name": "pdf"}, resources=[SkillResource(uri=URI, digest="sha256:0", size=1)])
    made = Skill(uri=URI, frontmatter={}, resources="dynamic")
    for skill in (listed, made):
        assert decode(msgspec.json.encode(skill), Skill) == skill
    assert msgspec.to_builtins(made) == {"uri": URI, "frontmatter": {}, "resources": "dynamic"}


@pytest.mark.parametrize("resources", ["static", None, 5, [{"uri": URI, "digest": "sha256:0"}]])
def test_a_skill_whose_files_are_neither_is_left_out_of_a_page(resources: object) -> None:
    page = {"skills": [{"uri": URI, "frontmatter": {}, "resources": resources}]}
    dropped: list[types.Dropped] = []
    found = decode(msgspec.json.encode(page), ListSkillsResult, dropped)
    assert found.skills == []
    assert dropped


def test_a_folder_is_asked_for_by_its_uri() -> None:
    params = decode(b'{"uri": "skill://pdf", "cursor": "3"}', ReadDirectoryRequestParams)
    assert (params.uri, params.cursor) == ("skill://pdf", "3")


def test_the_package_has_the_types_too() -> None:
    assert types.Skill is Skill
    with pytest.raises(AttributeError, match="has no attribute 'Skil'"):
        types.Skil  # noqa: B018
