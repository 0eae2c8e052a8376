"""What is kept of what happened lately stays within its three bounds."""

from __future__ import annotations

from longshore.dispatcher.state.history import BoundedLog


def recent(*, of_a_key: int = 3, keys: int = 3, most_bytes: int = 100) -> BoundedLog[str, str]:
    return BoundedLog(
        most_of_a_key=of_a_key,
        most_keys=keys,
        most_bytes=most_bytes,
        key_bytes=len,
        entry_bytes=len,
    )


def test_the_latest_of_a_key_are_kept_and_their_size_is_what_is_counted() -> None:
    kept = recent()
    for entry in ("1", "22", "333", "4444"):
        kept.add("k", entry)
    assert (kept.of("k"), kept.last("k")) == (["22", "333", "4444"], "4444")
    assert kept.size_bytes == len("k223334444")
    assert (kept.of("other"), kept.last("other")) == ([], None)


def test_who_got_an_entry_longest_ago_is_forgotten_first() -> None:
    kept = recent(keys=2)
    for key in ("a", "b", "a", "c"):
        kept.add(key, "1")
    assert ("a" in kept, "b" in kept, "c" in kept) == (True, False, True)
    assert kept.size_bytes == len("a11c1")


def test_too_many_bytes_make_it_forget_others_first_and_then_its_own_earliest() -> None:
    kept = recent(most_bytes=10)
    kept.add("a", "1234")
    kept.add("b", "1234")
    assert len(kept) == 2
    kept.add("b", "5678")
    assert (kept.of("a"), kept.of("b")) == ([], ["1234", "5678"])
    kept.add("b", "99")
    assert kept.of("b") == ["5678", "99"]
    kept.add("b", "x" * 99)
    assert (len(kept), kept.size_bytes) == (0, 0)
