from dragoman.types.memo import Memo, Recent


def test_what_is_asked_for_is_made_once():
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    kept = Memo(make)
    assert "a" not in kept
    assert [kept["a"], kept["b"], kept["a"]] == ["A", "B", "A"]
    assert made == ["a", "b"]
    assert kept == {"a": "A", "b": "B"}


def test_what_cannot_be_made_is_not_kept():
    kept: Memo[int, float] = Memo(lambda key: 1 / key)
    for _ in range(2):
        try:
            kept[0]
        except ZeroDivisionError:
            assert kept == {}
        else:
            raise AssertionError("nothing was raised")


def test_beyond_the_limit_the_oldest_entry_is_dropped():
    kept: Recent[str, int] = Recent(2)
    for key in ("a", "b", "a", "c"):
        kept[key] = len(kept)
    assert kept == {"a": 2, "c": 2}
    assert list(kept) == ["a", "c"]
