"""Known contents of memory: small tables of 32-bit words, followed through copies."""

from __future__ import annotations

from collections.abc import Sequence

from maxkernel.schedule.scalar import M

WORDS_LIMIT = 1 << 18
"""Longest table that is followed; scalar memory has as many words."""

Words = tuple[int, ...]


class Memory:
    """Tables by memory space. Addresses are those that DMAs use, in granules."""

    def __init__(self, words_per_granule: int) -> None:
        self._per = words_per_granule
        self._tables: dict[str, dict[int, Words]] = {}

    def put(self, space: str, address: int, words: Sequence[int]) -> None:
        """What lies at an address from now on."""
        self._tables.setdefault(space, {})[address] = tuple(words[:WORDS_LIMIT])

    def drop(self, space: str, address: int) -> None:
        """What began at an address is overwritten by something unknown."""
        tables = self._tables.get(space)
        if tables:
            tables.pop(address, None)

    def find(self, space: str, address: int, count: int) -> Words | None:
        """Up to `count` words from an address on; None where nothing is known."""
        for base, words in self._tables.get(space, {}).items():
            offset = (address - base) * self._per
            if 0 <= offset < len(words):
                return words[offset : offset + count]
        return None

    def place(self, space: str, address: int, words: Sequence[int]) -> None:
        """Puts an operand of a kernel, whose DMAs may use its address times sixteen."""
        self.put(space, address, words)
        self.put(space, address << 4 & M, words)

    def copy(self, source: tuple[str, int], destination: tuple[str, int], granules: int) -> None:
        """A DMA between memories other than scalar memory."""
        words = self.find(*source, granules * self._per) if self._tables.get(source[0]) else None
        if words is None:
            self.drop(*destination)
        else:
            self.put(*destination, words)
