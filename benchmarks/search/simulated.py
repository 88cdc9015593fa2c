"""Simulated workers, and a team with no end of ideas: what loads a driver and nothing else."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
import threading
import time
from concurrent.futures import Future

import msgspec

from maxkernel.engineers.builtin import BuiltinDebugger, BuiltinProfiler, BuiltinTuner
from maxkernel.engineers.team import Team
from maxkernel.targets import Target
from maxkernel.types import (
    ArraySpec,
    Artifact,
    ArtifactFacts,
    Design,
    Diagnosis,
    Evaluation,
    Move,
    Numerics,
    OpTime,
    Outcome,
    OutputError,
    PallasCall,
    Plan,
    ProgramTime,
    TaskInfo,
)
from maxkernel.types.messages import (
    CaptureReply,
    CaptureRequest,
    CheckReply,
    CompileReply,
    CompileRequest,
    Outline,
    OutlineReply,
    OutlineRequest,
    PingReply,
    PingRequest,
    Reply,
    Request,
)

SECONDS = {"capture": 0.4, "compile": 4.0, "check": 1.0}
"""Mean durations of real requests on one core each (JaxBench programs, v6e)."""
PROGRAM_BYTES = 40_000
"""Of an exported program (median of JaxBench kernels)."""
OPS = 6
SPEC = (ArraySpec((1024, 1024), "bfloat16"),)
"""Inputs and outputs of the simulated task."""

_CALL = PallasCall("k", (64,), block_bytes=1 << 20, moved_bytes=1e8)
_FACTS = ArtifactFacts((_CALL,), SPEC, SPEC)

_REPLY = msgspec.msgpack.Decoder(Reply)


class SimulatedWorkers:
    """Implements Executor: `workers` requests at once, each after a random time.

    Requests and replies pass through msgpack, as they would on their way to a host and back.
    """

    sandbox = "none"

    def __init__(self, workers: int, scale: float = 1.0, seed: int = 0) -> None:
        self._scale, self._random = scale, random.Random(seed)
        self._free = workers
        self._wake = threading.Condition()
        self._due: list[tuple[float, int, bytes, Future[Reply]]] = []
        self._queue: list[tuple[int, float, bytes, Future[Reply]]] = []
        self._order = itertools.count()
        self._closed = False
        self.busy_seconds = 0.0
        self.own_cpu = 0.0
        """Seconds of CPU for what hosts would do: making replies and encoding them."""
        self._clock = threading.Thread(target=self._run, daemon=True)
        self._clock.start()

    def submit(self, request: Request) -> Future[Reply]:
        """See Executor.submit."""
        future: Future[Reply] = Future()
        msgspec.msgpack.encode(request)
        started = time.thread_time()
        kind, reply = _serve(request)
        body = msgspec.msgpack.encode(reply)
        own = time.thread_time() - started
        seconds = self._scale * SECONDS.get(kind, 0.0) * self._random.expovariate(1.0)
        with self._wake:
            order = next(self._order)
            self.own_cpu += own
            heapq.heappush(self._queue, (order, seconds, body, future))
            self._start()
            self._wake.notify()
        return future

    def close(self) -> None:
        """See Executor.close."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._clock.join(10)

    def _start(self) -> None:
        while self._free and self._queue:
            order, seconds, reply, future = heapq.heappop(self._queue)
            self._free -= 1
            self.busy_seconds += seconds
            heapq.heappush(self._due, (time.monotonic() + seconds, order, reply, future))

    def _run(self) -> None:
        while True:
            with self._wake:
                now = time.monotonic()
                done: list[tuple[bytes, Future[Reply]]] = []
                while self._due and self._due[0][0] <= now:
                    _, _, reply, future = heapq.heappop(self._due)
                    self._free += 1
                    done.append((reply, future))
                self._start()
                if not done:
                    if self._closed:
                        return
                    wait = self._due[0][0] - now if self._due else 1.0
                    self._wake.wait(max(0.0005, wait))
            for reply, future in done:
                if not future.cancelled():
                    future.set_result(_REPLY.decode(reply))


def _serve(request: Request) -> tuple[str, Reply]:
    if isinstance(request, PingRequest):
        return "ping", PingReply({"jax": "simulated", "libtpu": "simulated"})
    if isinstance(request, CaptureRequest):
        name = hashlib.sha256(f"{request.source}{request.tunables}".encode()).digest()
        program = name * (PROGRAM_BYTES // len(name))
        return "capture", CaptureReply(Artifact(program, program, _FACTS))
    if isinstance(request, OutlineRequest):
        texts = [f"{request.source}{assignment}" for assignment in request.assignments]
        digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        return "capture", OutlineReply(tuple(Outline(digest, _FACTS) for digest in digests))
    if isinstance(request, CompileRequest):
        digest = hashlib.sha256(request.program).digest()
        seconds = 1e-3 * (0.5 + int.from_bytes(digest[:4], "big") / 2**32)
        op = OpTime("k", "kernel", 1, seconds, 1e6, 1e5, 1e8, 1e8, {"mxu": 1000, "valu": 1000})
        program = ProgramTime(request.target, seconds, 1e6, (op,) * OPS, 1.75e9)
        return "compile", CompileReply(program, {"temp": 0}, 4.0, 0.5, "simulated")
    error = OutputError(0.01, 0.001, 0.01, 0.001, 1.0, 0.3, 0, 1 << 20)
    return "check", CheckReply(Numerics((error,), 0, "float64", True), _FACTS)


class Ideas:
    """Planner, implementer and mover at once: eight plans, then four moves from every design."""

    def plan(self, info: TaskInfo, target: Target, history: tuple[Outcome, ...]) -> list[Plan]:
        """See roles.Planner."""
        return [] if history else [Plan("synthetic", f"plan {n}", "") for n in range(8)]

    def implement(self, info: TaskInfo, plan: Plan, target: Target) -> str:
        """See roles.Implementer: a file of a usual size."""
        filler = "\n".join(f"# line {n} of a kernel of a usual size" for n in range(80))
        return (
            'TUNABLES = {"block": (128, 256, 512), "chunk": (16, 32)}\n'
            f"PLAN = {plan.strategy!r}\n{filler}\n\n\ndef kernel(x, *, block=128, chunk=16):\n"
            "    return x\n"
        )

    def moves(
        self,
        info: TaskInfo,
        design: Design,
        evaluation: Evaluation,
        diagnosis: Diagnosis | None,
        target: Target,
    ) -> list[Move]:
        """See roles.Mover."""
        plan = design.plan
        return [
            Move(f"refine: {n}", Plan(plan.family, f"{plan.strategy}.{n}", ""), 0.02)
            for n in range(4)
        ]

    def merges(
        self, info: TaskInfo, design: Design, others: tuple[Design, ...], target: Target
    ) -> list[tuple[Design, Move]]:
        """See roles.Mover."""
        return []


def team() -> Team:
    """A team that answers at once."""
    ideas = Ideas()
    return Team(ideas, ideas, BuiltinDebugger(), BuiltinTuner(), BuiltinProfiler(), ideas)
