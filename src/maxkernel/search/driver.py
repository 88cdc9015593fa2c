"""Drives a graph search: decides, hands jobs to workers, stores and applies what comes back.

One thread decides and writes; jobs run on others. Everything that is decided or found is stored
before anything follows from it, so a search that is killed goes on from its last stored result.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from random import Random
from typing import Literal, Protocol, runtime_checkable

from maxkernel.engineers.roles import GuidedMover
from maxkernel.search.apply import apply, begin
from maxkernel.search.artifacts import Artifacts
from maxkernel.search.board import Board
from maxkernel.search.context import Context
from maxkernel.search.decision import job_of
from maxkernel.search.inputs import Inputs, inputs_of
from maxkernel.search.job import CHOICE, RESULT, Job, JobResult, Steer
from maxkernel.search.memory import Lesson
from maxkernel.search.options import Option, scale_of
from maxkernel.search.policies import Standing, get_policy
from maxkernel.search.reading import foreign
from maxkernel.search.settings import SearchSettings
from maxkernel.search.steer import Ear
from maxkernel.search.work import do_job

Reason = Literal["budget", "roofline", "no gain", "no plan", "stopped"]

ROUND = 8
"""Evaluations that count as one round of the budget's patience."""

DULL = 0.01
"""Expected ln gain below which a move waits for what rankings and planners may open."""


@runtime_checkable
class FrontierProgress(Protocol):
    """A `Progress` that also wants to know how wide the search is."""

    def frontier(self, options: int, running: int, evaluations: int) -> None:
        """What could be done next, what is being done, evaluations so far."""
        ...


class Driver:
    """One search of one run, from its stored state to its end."""

    def __init__(
        self, context: Context, settings: SearchSettings, lessons: Sequence[Lesson] = ()
    ) -> None:
        self._context = context
        self._run = context.run
        self._settings = settings
        self._policy = get_policy(settings.policy)
        self.board = Board(scale_of(context.prepared), lessons)
        self.note = ""
        """Why an engineer had no answer, the last time one had none."""
        self._shows = isinstance(context.progress, FrontierProgress)
        mover = context.team.mover
        self._moves_are_dear = mover is None or isinstance(mover, GuidedMover)
        """Somebody must be asked for them, and wants to know what happened so far."""
        self._artifacts = Artifacts()
        self._ear = Ear(context.run)
        self._jobs: dict[int, Job] = {}
        self._arrived: dict[int, JobResult] = {}
        self._received: list[int] = []
        """Of those, what workers sent since the last turn."""
        self._stored: set[int] = set()
        self._inputs: dict[int, Inputs] = {}
        self._next = 0
        self._words: tuple[Steer, ...] = ()
        self._queue: SimpleQueue[tuple[int, JobResult | BaseException]] = SimpleQueue()
        self._live = False
        self._idle = 0
        self._spent = False

    def drive(self) -> Reason:
        """Searches until the budget, the roofline, or the end of ideas; says which.

        With more budget it can be called again, and goes on.
        """
        self._idle = 0
        pool = ThreadPoolExecutor(self._settings.width, thread_name_prefix="search")
        try:
            while True:
                for job in self._turn():
                    pool.submit(self._work, job, self._inputs.pop(job.number))
                if self._idle >= self._settings.width:
                    return self._reason()
                self._receive()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _turn(self) -> list[Job]:
        """Applies what can be applied, decides what can be decided, and stores both at once."""
        width, starting = self._settings.width, list[Job]()
        self._listen()
        with self._run.batch():
            while self._idle < width and (
                self._next < width or self._next - width in self._arrived
            ):
                if self._next >= width:
                    self._apply(self._next - width)
                job = self._decide(self._next)
                self._jobs[job.number] = job
                self._begin(job)
                if not self._recall(job):
                    starting.append(job)
                self._next += 1
            self._store_early()
        return starting

    def _begin(self, job: Job) -> None:
        begin(self.board, self._run, job)
        for _, candidate in job.judged:
            evaluation = self._run.evaluation(candidate)
            if evaluation is not None and evaluation.artifact:
                self._artifacts.settle(evaluation.artifact)
        if job.kind == "repair":
            self._run.add_intent(self.board.graph[job.node].intent)
        self._inputs[job.number] = inputs_of(self.board, job, history=self._moves_are_dear)

    def _decide(self, number: int) -> Job:
        """The stored decision of that number, or a new one, stored."""
        self.board.look()
        key = f"{CHOICE}{number}"
        job = self._run.recall(key, Job) if not self._live else None
        if job is not None:
            self._ear.heard(len(job.steers))
            self._idle = (self._idle + 1) % self._settings.width if job.waits else 0
            return job
        if self._live:
            job = self._choose(number)
        else:
            self._live = True
            self._listen()
            job = self._adopt(number)
        self._run.remember(key, job)
        self._idle = self._idle + 1 if job.waits else 0
        return job

    def _listen(self) -> None:
        """Hears people's words, once nothing that is stored is left to repeat."""
        if not self._live:
            return
        words, budget = self._ear.listen()
        self._words += words
        if budget is not None:
            self._context.budget = budget

    def _adopt(self, number: int) -> Job:
        """The first new decision of a session takes in what another mode did in the meantime, and
        what was ported."""
        job = foreign(self._run, self.board, number)
        return self._choose(number) if job.waits else job

    def _choose(self, number: int) -> Job:
        if self._words:
            steers, self._words = self._words, ()
            return Job(number, "idle", steers=steers)
        left = self._left()
        if left < 1 or self._ends() is not None:
            return Job(number, "idle")
        options = self.board.options()
        option = self._free(options) or self._favoured(number, options, left)
        return job_of(self.board, number, option, mixes=self._policy.mixes)

    def _free(self, options: list[Option]) -> Option | None:
        """Moves that a mover knows by itself cost nothing, so they are looked up at once."""
        if self._moves_are_dear:
            return None
        return next((o for o in options if o.kind == "moves"), None)

    def _favoured(self, number: int, options: list[Option], left: int) -> Option | None:
        """The policy's choice; every other decision goes to what people pinned."""
        pinned = [o for o in options if o.pinned] if number % 2 else []
        record = self.board.graph.record
        best = self.board.scale.merit(record) if record is not None else float("-inf")
        standing = Standing(best, number, left, self.board.chains)
        rng = Random(f"{self._settings.seed}/{number}")
        chosen = self._policy.choose(pinned or options, standing, rng)
        return None if chosen is not None and self._waits(chosen) else chosen

    def _waits(self, option: Option) -> bool:
        """Little is expected of it, and a job that costs nothing is about to open others."""
        dull = option.kind == "implement" and option.gain < DULL and not option.pinned
        return dull and any(job.cost == 0 for job in self.board.running.values())

    def _recall(self, job: Job) -> bool:
        """True when the job needs no worker: it waits only, or its result is stored."""
        if job.kind == "idle":
            self._arrived[job.number] = JobResult()
        else:
            key = f"{RESULT}{job.number}"
            result = self._run.recall(key, JobResult) if not self._live else None
            if result is None:
                return False
            self._arrived[job.number] = result
            self._stored.add(job.number)
        self._inputs.pop(job.number)
        return True

    def _work(self, job: Job, inputs: Inputs) -> None:
        try:
            self._queue.put((job.number, do_job(self._context, self._artifacts, job, inputs)))
        except BaseException as error:
            self._queue.put((job.number, error))

    def _receive(self) -> None:
        """Waits for a result, and takes all that are there."""
        item = self._queue.get()
        while True:
            number, result = item
            if isinstance(result, BaseException):
                raise result
            self._arrived[number] = result
            self._received.append(number)
            try:
                item = self._queue.get_nowait()
            except Empty:
                return

    def _store_early(self) -> None:
        """Stores results whose turn has not come."""
        for number in sorted(set(self._received) & set(self._arrived)):
            self._run.remember(f"{RESULT}{number}", self._arrived[number])
            self._stored.add(number)
        self._received.clear()

    def _apply(self, number: int) -> None:
        job, result = self._jobs.pop(number), self._arrived.pop(number)
        applied = apply(self.board, self._run, job, result)
        self._spent = self._spent or result.spent
        if result.note and job.kind in ("plan", "moves"):
            self.note = result.note
            if number not in self._stored:
                self._run.event("no answer", role=job.kind, message=result.note)
        if applied.design is not None:
            self._run.add_design(applied.design)
        for intent in applied.intents:
            self._run.add_intent(intent)
        if applied.evaluation is not None:
            self._run.add_evaluation(job.node, applied.evaluation)
            if applied.evaluation.artifact:
                self._artifacts.settle(applied.evaluation.artifact)
            self._context.progress.evaluated(job.node, applied.evaluation)
        if number not in self._stored:
            if job.kind != "idle":
                self._run.remember(f"{RESULT}{number}", applied.result)
        elif applied.result != result:
            self._run.amend(f"{RESULT}{number}", applied.result)
        self._stored.discard(number)
        self._show()

    def _show(self) -> None:
        progress, board = self._context.progress, self.board
        if self._shows and isinstance(progress, FrontierProgress):
            progress.frontier(board.open, len(board.running), board.graph.evaluations)

    def _left(self) -> int:
        """Evaluations that are neither spent nor reserved."""
        board = self.board
        return self._context.budget.candidates - board.graph.evaluations - board.reserved

    def _ends(self) -> Reason | None:
        """Why no new evaluation should start, whatever there is to try."""
        context, graph = self._context, self.board.graph
        budget = context.budget
        if context.stopping():
            return "stopped"
        late = budget.seconds is not None and context.seconds_used() >= budget.seconds
        if self._spent or late:
            return "budget"
        bound = context.prepared.bound
        if graph.record is not None and bound.reached(graph.record, budget.roofline):
            return "roofline"
        quiet = graph.evaluations - graph.gained_at
        return "no gain" if quiet >= budget.patience * ROUND else None

    def _reason(self) -> Reason:
        return self._ends() or ("budget" if self._left() < 1 else "no plan")
