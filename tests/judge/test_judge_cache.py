"""The evaluation cache survives broken files and forgets the oldest first."""

from pathlib import Path

import pytest

from maxkernel.judge import cache as cache_module
from maxkernel.judge.cache import Cache, stage_key
from maxkernel.types import Time
from maxkernel.types.messages import PingReply


def test_round_trip_and_wrong_type(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    key = stage_key("compile", "abc", "v6e")
    assert cache.get(key, PingReply) is None
    cache.put(key, PingReply({"jax": "1"}))
    assert cache.get(key, PingReply) == PingReply({"jax": "1"})
    assert cache.get(key, Time) is None
    assert stage_key("compile", "abc", "v5e") != key
    cache.close()


def test_a_broken_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "evaluations.sqlite").write_bytes(b"garbage" * 1000)
    cache = Cache(tmp_path)
    cache.put("k", PingReply({}))
    assert cache.get("k", PingReply) is not None
    cache.close()
    assert (tmp_path / "evaluations.broken").exists()


def test_the_oldest_half_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "CACHE_LIMIT_BYTES", 100)
    cache = Cache(tmp_path)
    for n in range(10):
        cache.put(f"k{n}", PingReply({"n": str(n)}))
    cache.close()
    cache = Cache(tmp_path)
    assert cache.get("k0", PingReply) is None
    assert cache.get("k9", PingReply) is not None
    cache.close()
