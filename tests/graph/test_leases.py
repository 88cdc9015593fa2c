"""Leases over hosts that come, go, hang and lie: every request gets one reply."""

from __future__ import annotations

import importlib.util
import random
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from maxkernel.config import Settings
from maxkernel.errors import EnvironmentFault, UsageError
from maxkernel.executor import open_executor
from maxkernel.executor.leases import HostLost, LeasedExecutor
from maxkernel.types.messages import (
    CompileReply,
    CompileRequest,
    FailureReply,
    PingReply,
    PingRequest,
    Reply,
    Request,
)

VERSIONS = {"jax": "1"}


class SimulatedHost:
    """A host that answers after a while, until it is lost."""

    def __init__(
        self,
        name: str,
        seconds: float = 0.001,
        slots: int = 2,
        labels: frozenset[str] = frozenset({"compile"}),
        versions: dict[str, str] = VERSIONS,
        silent: bool = False,
    ) -> None:
        self.name, self.slots, self.labels = name, slots, labels
        self.served: Counter[bytes] = Counter()
        self._seconds, self._versions, self._silent = seconds, versions, silent
        self._lost = threading.Event()
        self._pool = ThreadPoolExecutor(slots + 1)
        self._random = random.Random(name)

    def submit(self, request: Request) -> Future[Reply]:
        if self._lost.is_set():
            raise HostLost(self.name)
        return self._pool.submit(self._serve, request)

    def lose(self) -> None:
        self._lost.set()

    def close(self) -> None:
        self._lost.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self, request: Request) -> Reply:
        if isinstance(request, PingRequest):
            return PingReply(self._versions)
        assert isinstance(request, CompileRequest)
        if request.program == b"poison":
            self._lost.set()
        if self._silent:
            self._lost.wait(30)
        self._lost.wait(self._seconds * self._random.expovariate(1.0))
        if self._lost.is_set():
            raise HostLost(self.name)
        self.served[request.program] += 1
        return CompileReply(None, {}, 0.0, 0.0, request.program.decode())


def request(number: int | str) -> CompileRequest:
    return CompileRequest(str(number).encode(), "v6e")


def executor(seconds: float = 30.0) -> LeasedExecutor:
    return LeasedExecutor(lambda _: seconds)


def answers(futures: list[Future[Reply]]) -> list[str]:
    replies = [f.result(20) for f in futures]
    return [r.compiler if isinstance(r, CompileReply) else "failed" for r in replies]


def test_lost_hosts_cost_their_leases_and_nothing_else() -> None:
    """Four of six hosts are lost while 400 requests run; two join late. Each is answered once."""
    leases = executor()
    hosts = [SimulatedHost(f"h{n}", 0.004) for n in range(6)]
    for host in hosts:
        assert leases.join(host) == ""
    futures = [leases.submit(request(n)) for n in range(400)]
    for host in hosts[:4]:
        time.sleep(0.03)
        host.lose()
    for name in ("late 1", "late 2"):
        late = SimulatedHost(name, 0.004)
        assert leases.join(late) == ""
        hosts.append(late)
    assert answers(futures) == [str(n) for n in range(400)]
    assert leases.lost >= 1 and not set(leases.hosts) & {h.name for h in hosts[:4]}
    leases.close()


def test_a_silent_host_loses_its_leases() -> None:
    leases = executor(seconds=0.2)
    mute, well = SimulatedHost("mute", slots=4, silent=True), SimulatedHost("well", slots=1)
    for host in (mute, well):
        leases.join(host)
    assert answers([leases.submit(request(n)) for n in range(8)]) == [str(n) for n in range(8)]
    leases.close()


def test_a_request_that_takes_hosts_down_gets_a_failure() -> None:
    leases = executor()
    for n in range(5):
        leases.join(SimulatedHost(f"h{n}"))
    reply = leases.submit(request("poison")).result(10)
    assert isinstance(reply, FailureReply) and "3 hosts in a row" in reply.failure.message
    assert len(leases.hosts) == 2
    assert answers([leases.submit(request(1))]) == ["1"]
    leases.close()


def test_another_compiler_is_not_mixed_in() -> None:
    leases = executor()
    assert leases.join(SimulatedHost("a")) == ""
    assert "the others have" in leases.join(SimulatedHost("b", versions={"jax": "2"}))
    assert leases.hosts == ["a"]
    leases.close()


def test_a_request_waits_for_a_host_with_what_it_needs() -> None:
    leases = LeasedExecutor(lambda _: 30.0, lambda r: "tpu v6e")
    leases.join(SimulatedHost("cpu only"))
    future = leases.submit(request(1))
    time.sleep(0.1)
    assert not future.done()
    leases.join(SimulatedHost("tpu", labels=frozenset({"compile", "tpu v6e"})))
    assert answers([future]) == ["1"]
    leases.close()


def test_closing_answers_everything() -> None:
    leases = executor()
    leases.join(SimulatedHost("slow", 60.0))
    futures = [leases.submit(request(n)) for n in range(5)]
    leases.close()
    assert answers(futures) == ["failed"] * 5
    assert isinstance(leases.submit(request(9)).result(1), FailureReply)


def test_a_cancelled_request_is_not_leased() -> None:
    leases = executor()
    first = leases.submit(request(0))
    assert first.cancel()
    host = SimulatedHost("h")
    leases.join(host)
    assert answers([leases.submit(request(1))]) == ["1"]
    assert set(host.served) == {b"1"}
    leases.close()


def test_the_settings_name_the_executor() -> None:
    with pytest.raises(UsageError, match="executor is 'slurm'"):
        open_executor(Settings(executor="slurm"))
    if importlib.util.find_spec("ray") is None:
        with pytest.raises(EnvironmentFault, match=r"maxkernel\[ray\]|Ray is not installed"):
            open_executor(Settings(executor="ray"))
