import pytest

from dragoman.runtime.hints import did_you_mean, refuse_unknown


def test_the_name_that_is_most_like_another_is_asked_for():
    assert did_you_mean("timeuot", ["timeout", "total_timeout"]) == "; did you mean 'timeout'?"
    assert did_you_mean("colour", ["timeout"]) == ""


def test_an_option_that_there_is_not_is_refused():
    refuse_unknown("It", {"timeout": 1}, ["timeout"])
    with pytest.raises(TypeError, match=r"It has no option 'timeuot'; did you mean 'timeout'\?"):
        refuse_unknown("It", {"timeuot": 1}, ["timeout"])
