import pytest

from dragoman.errors import DefinitionError
from dragoman.views import ViewFinding
from dragoman.views.findings import raise_findings


def test_findings_become_one_error_that_lists_all():
    raise_findings([])
    with pytest.raises(DefinitionError) as caught:
        raise_findings([ViewFinding("a", "no x"), ViewFinding("b", "no y")])
    assert str(caught.value) == "The view of 'a' does not match: no x\nThe view of 'b' does not match: no y"
