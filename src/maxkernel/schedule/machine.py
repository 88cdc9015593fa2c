"""The state that running programs share: scalar memory, sync flags, DMAs in flight, statistics."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

import msgspec

from maxkernel.schedule.dma import DmaQueue
from maxkernel.schedule.problem import ScheduleError

M = 0xFFFFFFFF
STEP = 512
"""Bytes of a step, the unit of contiguous pieces."""

_SIGN = 0x80000000
_MULTICAST = 0xFFFF
"""A flag number above this names a flag on each core: one read serves both (v5p)."""
_LOCAL_FLAG = 0x1FFF

Call = Callable[[float, int, tuple[int, ...]], float]


class DmaSite(msgspec.Struct, frozen=True):
    """A DMA instruction: where from, where to, and its place in the text."""

    program: str
    result: str
    bundle: int
    source: str
    destination: str
    owner: str = ""
    """Name of the HLO op that a DMA of the top-level program belongs to."""

    @property
    def reads(self) -> bool:
        return self.source == "hbm"

    @property
    def writes(self) -> bool:
        return self.destination == "hbm"


class SiteStats:
    """Totals of one DMA instruction over all its executions."""

    __slots__ = ("bytes", "chunks", "count", "stall")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.chunks = 0
        self.stall = 0.0


class Machine:
    """One core and its DMA queue. Times are in cycles."""

    def __init__(self, queue: DmaQueue, core: int, paired: bool, granule: int, fuel: int) -> None:
        self.queue = queue
        self.core = core
        self.paired = paired
        self.granule = granule
        self.fuel = fuel
        self.smem: dict[int, int] = {}
        self.tables: list[tuple[int, tuple[int, ...]]] = []
        self.levels: dict[int, int] = {}
        self.pending: dict[int, list[tuple[float, int, DmaSite]]] = {}
        self.sites: dict[DmaSite, SiteStats] = {}
        self.waits: dict[tuple[str, int], float] = {}
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
        site: DmaSite,
        source: int,
        destination: int,
        granules: int,
        flag: int,
        piece: int,
    ) -> None:
        """Starts a copy of `granules` in contiguous pieces of `piece` bytes (0: one piece)."""
        size = granules * self.granule
        pieces = max(1, size // piece) if piece else 1
        stats = self.sites.get(site)
        if stats is None:
            stats = self.sites[site] = SiteStats()
        stats.count += 1
        stats.bytes += size
        stats.chunks += pieces
        if site.reads:
            self.read_bytes += size
        if site.writes:
            self.write_bytes += size
        share = 1
        if flag > _MULTICAST:
            flag, share = flag & _LOCAL_FLAG, 2
        hbm = site.reads or site.writes
        done = self.queue.submit(now, size / share, pieces / share, hbm) if size else now
        insort(self.pending.setdefault(flag, []), (done, granules, site), key=_completion)
        if site.destination == "smem":
            self._fill(source, destination, size // 4)

    def _fill(self, source: int, destination: int, words: int) -> None:
        """Copies known words to scalar memory; VMEM addresses reach a DMA times sixteen."""
        for base, values in self.tables:
            for start in (base, base << 4 & M):
                offset = (source - start) * (self.granule // 4)
                if 0 <= offset < len(values):
                    for index, value in enumerate(values[offset : offset + words]):
                        self.smem[destination + index] = value
                    return
        if not self.top_level:
            self.assume("a table in scalar memory is unknown and read as zeros")

    def wait(self, now: float, flag: int, need: int, place: tuple[str, int]) -> float:
        """Cycles until the flag reaches `need`; the flag keeps its level."""
        level = self.levels.get(flag, 0)
        if need & _SIGN:
            need -= 1 << 32
        if level >= need:
            return 0.0
        queue = self.pending.get(flag)
        end = now
        last: DmaSite | None = None
        while level < need and queue:
            end, amount, last = queue.pop(0)
            level += amount
        if level < need:
            self._unmatched(place)
            level = need
        self.levels[flag] = level
        stall = end - now
        if stall <= 0:
            return 0.0
        self.stall += stall
        self.waits[place] = self.waits.get(place, 0.0) + stall
        if last is not None:
            self.sites[last].stall += stall
        return stall

    def _unmatched(self, place: tuple[str, int]) -> None:
        if not self.top_level and not self.paired:
            self.assume(f"the wait at {place[1]:#x} has no matching copy; taken as satisfied")

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

    def described_piece(self, address: int, inner_hbm: int, outer_hbm: int) -> int:
        """Contiguous bytes of a `dma.general`, from its six-word descriptor in scalar memory."""
        words = [self.smem.get(address + index, 0) for index in range(6)]
        piece = max(1, words[5]) * STEP
        if words[inner_hbm] * self.granule == piece:
            piece *= max(1, words[2])
            if words[outer_hbm] * self.granule == piece:
                return 0
        return piece


def _completion(item: tuple[float, int, DmaSite]) -> float:
    return item[0]


def _no_call(now: float, index: int, operands: tuple[int, ...]) -> float:
    del index, operands
    return now
