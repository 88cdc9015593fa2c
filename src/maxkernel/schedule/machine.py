"""The state that running programs share: scalar memory, sync flags, DMAs in flight, statistics."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

from maxkernel.schedule.copies import STEP, DmaSite
from maxkernel.schedule.dma import DmaQueue
from maxkernel.schedule.memory import WORDS_LIMIT, Memory
from maxkernel.schedule.problem import ScheduleError
from maxkernel.schedule.record import Recorder

M = 0xFFFFFFFF

_SIGN = 0x80000000
_MULTICAST = 0xFFFF
"""A flag number above this names a flag on each core: one read serves both (v5p)."""
_LOCAL_FLAG = 0x1FFF

Call = Callable[[float, int, tuple[int, ...]], float]


class Given(int):
    """A scalar that was looked up in known memory, and not assumed."""


class SiteStats:
    """Totals of one DMA instruction over all its executions."""

    __slots__ = (
        "bytes", "count", "from_smem", "hbm", "pieces", "reads", "site", "smem", "stall", "writes",
    )  # fmt: skip

    def __init__(self, site: DmaSite) -> None:
        self.site = site
        self.reads = site.reads
        self.writes = site.writes
        self.hbm = site.reads or site.writes
        self.smem = site.destination == "smem"
        self.from_smem = site.source == "smem"
        self.count = 0
        self.bytes = 0
        self.pieces = 0
        self.stall = 0.0


class Activity:
    """What one op (or the top-level program) did: its DMAs, and its waits by bundle."""

    def __init__(self, sites: Sequence[DmaSite]) -> None:
        self.sites = [SiteStats(site) for site in sites]
        self.waits: dict[int, float] = {}
        self.blame: dict[tuple[int, SiteStats], float] = {}
        """Of the waits, those that a known DMA ended."""
        self.recorder = Recorder()


class Machine:
    """One core and its DMA queue. Times are in cycles."""

    def __init__(self, queue: DmaQueue, core: int, paired: bool, granule: int, fuel: int) -> None:
        self.queue = queue
        self.core = core
        self.paired = paired
        self.granule = granule
        self.fuel = fuel
        self.smem: dict[int, int] = {}
        self.memory = Memory(granule // 4)
        self.lost = False
        """A value out of vector memory was not known in this program."""
        self.levels: dict[int, int] = {}
        self.pending: dict[int, list[tuple[float, int, SiteStats]]] = {}
        self.activity = Activity(())
        self.stall = 0.0
        self.read_bytes = 0.0
        self.write_bytes = 0.0
        self.scope = ""
        self.top_level = True
        self.assumptions: dict[str, None] = {}
        self.call: Call = _no_call

    def assume(self, text: str) -> None:
        self.assumptions[f"{self.scope or 'top-level program'}: {text}"] = None

    def burn(self) -> None:
        """Counts a backward branch; raises ScheduleError(`endless_loop`) at the limit."""
        self.fuel -= 1
        if self.fuel < 0:
            raise ScheduleError(
                "endless_loop",
                f"{self.scope or 'the top-level program'}: the limit of loop steps was reached",
            )

    def remote(self, op: str) -> None:
        """A signal to the other core, the SparseCore (at top level), or else to another chip."""
        if not self.top_level and not self.paired:
            raise ScheduleError("collective", f"{self.scope}: {op} signals another chip")

    def guess(self, bundle: int) -> None:
        """Notes that a branch whose condition depends on vector data was met."""
        self.assume(f"the branch at {bundle:#x} depends on data; taken as for zero, loops once")

    def dma(
        self,
        now: float,
        site: int,
        source: int,
        destination: int,
        granules: int,
        flag: int,
        piece: int,
    ) -> None:
        """Starts a copy of `granules` in runs of `piece` bytes (0: one run)."""
        size = granules * self.granule
        pieces = max(1, size // piece) if piece else 1
        stats = self.activity.sites[site]
        stats.count += 1
        stats.bytes += size
        stats.pieces += pieces
        if stats.reads:
            self.read_bytes += size
        if stats.writes:
            self.write_bytes += size
        share = 1
        if flag > _MULTICAST:
            flag, share = flag & _LOCAL_FLAG, 2
        kind = stats.hbm, stats.writes
        done = self.queue.submit(now, size / share, pieces / share, *kind) if size else now
        self.activity.recorder.dma(stats.site, now, done)
        insort(self.pending.setdefault(flag, []), (done, granules, stats), key=_completion)
        if stats.smem:
            self._fill(stats.site.source, source, destination, size // 4)
        elif stats.from_smem:
            self._store(source, stats.site.destination, destination, size // 4)
        elif self.top_level:
            ends = (stats.site.source, source), (stats.site.destination, destination)
            self.memory.copy(*ends, granules)

    def _fill(self, space: str, source: int, destination: int, count: int) -> None:
        """Copies known words to scalar memory."""
        words = self.memory.find(space, source, count)
        if words is not None:
            self.smem.update(enumerate(words, destination))
        elif not self.top_level:
            self.assume("a table in scalar memory is unknown and read as zeros")

    def _store(self, source: int, space: str, destination: int, count: int) -> None:
        """Copies scalar memory to another one."""
        words = range(source, source + min(count, WORDS_LIMIT))
        self.memory.put(space, destination, [self.smem.get(word, 0) for word in words])

    def lane(self, address: int) -> int:
        """The first word at an address of vector memory; 0 where it is not known."""
        words = self.memory.find("vmem", address * (STEP // self.granule) & M, 1)
        if words:
            return Given(words[0])
        self.lost = True
        return 0

    def wait(self, now: float, flag: int, need: int, bundle: int) -> float:
        """Cycles until the flag reaches `need`; the flag keeps its level."""
        level = self.levels.get(flag, 0)
        if need & _SIGN:
            need -= 1 << 32
        if level >= need:
            return 0.0
        queue = self.pending.get(flag)
        end = now
        last: SiteStats | None = None
        while level < need and queue:
            end, amount, last = queue.pop(0)
            level += amount
        if level < need:
            self._unmatched(bundle)
            level = need
        self.levels[flag] = level
        stall = end - now
        if stall <= 0:
            return 0.0
        self.stall += stall
        waits = self.activity.waits
        waits[bundle] = waits.get(bundle, 0.0) + stall
        if last is not None:
            last.stall += stall
            key = (bundle, last)
            self.activity.blame[key] = self.activity.blame.get(key, 0.0) + stall
            self.activity.recorder.wait(last.site, now, end)
        return stall

    def _unmatched(self, bundle: int) -> None:
        if not self.top_level and not self.paired:
            self.assume(f"the wait at {bundle:#x} has no matching copy; taken as satisfied")

    def add(self, flag: int, amount: int) -> None:
        """Adds a signed 32-bit amount to a flag."""
        signed = amount - (1 << 32) if amount & _SIGN else amount
        self.levels[flag] = self.levels.get(flag, 0) + signed

    def set(self, flag: int, value: int) -> None:
        self.levels[flag] = value
        self.pending.pop(flag, None)

    def level(self, now: float, flag: int) -> int:
        """The flag's value at `now`, finished copies included."""
        queue = self.pending.get(flag, [])
        while queue and queue[0][0] <= now:
            self.levels[flag] = self.levels.get(flag, 0) + queue.pop(0)[1]
        return self.levels.get(flag, 0) & M

    def described_piece(self, address: int) -> int:
        """Bytes of a run of a `dma.general`: the last of its descriptor's six words, in steps."""
        return self.smem.get(address + 5, 0) * STEP


def _completion(item: tuple[float, int, SiteStats]) -> float:
    return item[0]


def _no_call(now: float, index: int, operands: tuple[int, ...]) -> float:
    del index, operands
    return now
