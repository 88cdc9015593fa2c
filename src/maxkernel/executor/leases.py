"""Many hosts behind one executor: requests are leased to hosts, and a lost host loses its leases.

A lease ends when its reply comes, when its host is lost, or when its time is up; in the last two
cases the request goes to another host. A request that loses several hosts in a row is itself at
fault and gets a failure. Whatever arrives for a lease that has ended is ignored; a host that is
late gets no new request in that slot until it answers.
"""

from __future__ import annotations

import functools
import heapq
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from maxkernel.executor.faults import closed_failure, stage_of
from maxkernel.types import Failure
from maxkernel.types.messages import FailureReply, PingReply, PingRequest, Reply, Request

MAX_LOSSES = 3
"""Hosts that a request may lose before it gets a failure instead."""

CHECK_SECONDS = 0.5
"""How often leases are looked over."""


class HostLost(Exception):
    """The host does not answer any more; what it was doing has to be done elsewhere."""


class Host(Protocol):
    """A machine that runs workers."""

    @property
    def name(self) -> str:
        """For people, and to tell hosts apart."""
        ...

    @property
    def slots(self) -> int:
        """Requests that it takes at once."""
        ...

    @property
    def labels(self) -> frozenset[str]:
        """What it has: `compile`, and `tpu v6e` where a TPU of that kind is attached."""
        ...

    def submit(self, request: Request) -> Future[Reply]:
        """The reply; the future raises HostLost when the host is gone."""
        ...

    def close(self) -> None:
        """Ends its workers."""
        ...


@dataclass(order=True)
class _Lease:
    order: int
    request: Request = field(compare=False)
    future: Future[Reply] = field(compare=False)
    label: str = field(compare=False)
    losses: int = field(default=0, compare=False)
    host: str = field(default="", compare=False)
    deadline: float = field(default=0.0, compare=False)
    begun: bool = field(default=False, compare=False)

    def begin(self) -> bool:
        """False when its request was cancelled before any host had it."""
        if not self.begun:
            self.begun = self.future.set_running_or_notify_cancel()
        return self.begun


class LeasedExecutor:
    """Implements Executor over hosts that come and go. Thread-safe."""

    def __init__(
        self,
        limit: Callable[[Request], float],
        label: Callable[[Request], str] = lambda _: "compile",
        sandbox: str = "bubblewrap",
    ) -> None:
        """`limit`: seconds after which a lease is given to another host. `label`: what a request
        needs of its host."""
        self._limit, self._label, self._level = limit, label, sandbox
        self._lock = threading.RLock()
        self._hosts: dict[str, Host] = {}
        self._free: dict[str, int] = {}
        self._waiting: list[_Lease] = []
        self._running: dict[int, _Lease] = {}
        self._orders = 0
        self._versions: dict[str, str] | None = None
        self._closed = threading.Event()
        self.lost = 0
        """Leases that ended without a reply."""
        self._guard = threading.Thread(target=self._look_over, name="leases", daemon=True)
        self._guard.start()

    @property
    def sandbox(self) -> str:
        """Level of isolation on every host."""
        return self._level

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts at work."""
        with self._lock:
            return sorted(self._hosts)

    def join(self, host: Host) -> str:
        """Takes a host in; returns why not where its compiler differs from the others'."""
        reply = host.submit(PingRequest()).result()
        versions = reply.versions if isinstance(reply, PingReply) else None
        if versions is None:
            return f"{host.name} does not answer: {reply}"
        with self._lock:
            if self._versions not in (None, versions):
                return f"{host.name} has {versions}, the others have {self._versions}"
            self._versions = versions
            self._hosts[host.name] = host
            self._free[host.name] = host.slots
        self._assign()
        return ""

    def drop(self, name: str) -> None:
        """A host is gone: its leases go to others."""
        with self._lock:
            self._hosts.pop(name, None)
            self._free.pop(name, None)
            mine = [lease for lease in self._running.values() if lease.host == name]
            for lease in mine:
                self._end(lease, lost=True)
        self._assign()

    def submit(self, request: Request) -> Future[Reply]:
        """See Executor.submit."""
        future: Future[Reply] = Future()
        with self._lock:
            if self._closed.is_set():
                future.set_result(FailureReply(closed_failure(request)))
                return future
            self._orders += 1
            lease = _Lease(self._orders, request, future, self._label(request))
            heapq.heappush(self._waiting, lease)
        self._assign()
        return future

    def close(self) -> None:
        """See Executor.close."""
        self._closed.set()
        with self._lock:
            left = [*self._waiting, *self._running.values()]
            hosts = list(self._hosts.values())
            self._waiting.clear()
            self._running.clear()
            self._hosts.clear()
        for lease in left:
            _answer(lease, FailureReply(closed_failure(lease.request)))
        for host in hosts:
            host.close()
        if threading.current_thread() is not self._guard:
            self._guard.join(5)

    def _assign(self) -> None:
        """Leases what waits to hosts that have room, oldest first."""
        while True:
            with self._lock:
                found = self._next()
                if found is None:
                    return
                lease, host = found
                lease.host = host.name
                lease.deadline = time.monotonic() + self._limit(lease.request)
                self._running[lease.order] = lease
                self._free[host.name] -= 1
            try:
                reply = host.submit(lease.request)
            except HostLost:
                self.drop(host.name)
                continue
            reply.add_done_callback(functools.partial(self._done, lease, host.name, lease.losses))

    def _next(self) -> tuple[_Lease, Host] | None:
        kept: list[_Lease] = []
        found: tuple[_Lease, Host] | None = None
        free = sorted((-n, name) for name, n in self._free.items() if n > 0)
        while free and self._waiting and found is None:
            lease = heapq.heappop(self._waiting)
            hosts = [h for _, name in free if lease.label in (h := self._hosts[name]).labels]
            if not hosts:
                kept.append(lease)
            elif lease.begin():
                found = lease, hosts[0]
        for lease in kept:
            heapq.heappush(self._waiting, lease)
        return found

    def _done(self, lease: _Lease, host: str, losses: int, reply: Future[Reply]) -> None:
        """A host has answered; one that answers late only gets its slot back."""
        error = None if reply.cancelled() else reply.exception()
        if reply.cancelled() or isinstance(error, HostLost):
            self.drop(host)
            return
        with self._lock:
            if host in self._free:
                self._free[host] += 1
            current = lease.order in self._running and lease.losses == losses
            if current:
                self._end(lease, lost=False)
        if current:
            _answer(lease, _reply_of(lease, reply, error))
        self._assign()

    def _end(self, lease: _Lease, *, lost: bool) -> None:
        """Ends a lease; one that is lost waits again, unless it has lost too many hosts."""
        self._running.pop(lease.order, None)
        if not lost:
            return
        self.lost += 1
        lease.losses += 1
        if lease.losses >= MAX_LOSSES:
            _answer(lease, FailureReply(_lost_failure(lease)))
        else:
            heapq.heappush(self._waiting, lease)

    def _look_over(self) -> None:
        while not self._closed.wait(CHECK_SECONDS):
            now = time.monotonic()
            with self._lock:
                late = [le for le in self._running.values() if le.deadline < now]
                for lease in late:
                    self._end(lease, lost=True)
            if late:
                self._assign()


def _reply_of(lease: _Lease, reply: Future[Reply], error: BaseException | None) -> Reply:
    if error is None:
        return reply.result()
    stage = stage_of(lease.request)
    text = f"host {lease.host} failed: {type(error).__name__}: {error}"
    return FailureReply(Failure(stage, "environment", text, "see the host's own log"))


def _answer(lease: _Lease, reply: Reply) -> None:
    if not lease.future.done() and lease.begin():
        lease.future.set_result(reply)


def _lost_failure(lease: _Lease) -> Failure:
    return Failure(
        stage_of(lease.request),
        "crash",
        f"{lease.losses} hosts in a row were lost or silent while they worked on this",
        "if the hosts are well, the program takes them down: change it",
    )
