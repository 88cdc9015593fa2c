"""Statistics of a convolution's pixels: gathered over a sweep, used in the next.

A sum is kept per image, row of a group and channel, so that adding a chunk moves nothing between
lanes. A variance is the mean square of differences from a guess of the mean, less the square of
their mean; the guess is a row's own mean, so nothing is lost to a mean far from zero.
"""

from __future__ import annotations

from maxkernel.engineers.builtin.conv.match import Statistic
from maxkernel.engineers.builtin.conv.refs import StatisticRefs

_MERGE = '''def merge(x, group):
    """Adds up the rows of a group, side by side in lanes; each gets the sum."""
    filters = x.shape[1] // group
    total = x[:, :filters]
    for row in range(1, group):
        total += x[:, row * filters : (row + 1) * filters]
    return jnp.concatenate([total] * group, axis=1)
'''
_MERGE_IMAGES = '''def merge(x, group):
    """Adds up all images, and the rows of a group, which lie side by side in lanes."""
    filters = x.shape[1] // group
    total = jnp.zeros((1, filters), jnp.float32)
    for row in range(group):
        part = x[:, row * filters : (row + 1) * filters]
        total += jnp.sum(part, axis=0, keepdims=True)
    return jnp.broadcast_to(jnp.concatenate([total] * group, axis=1), x.shape)
'''
_OVER_RUN = '''def over_run(x, size):
    """Sums of runs of `size` channels, in every channel of the run, as a product."""
    shape = (x.shape[1], x.shape[1])
    source = jax.lax.broadcasted_iota(jnp.int32, shape, 0) // size
    target = jax.lax.broadcasted_iota(jnp.int32, shape, 1) // size
    same = jnp.where(source == target, 1.0, 0.0)
    return jnp.dot(x, same, precision=jax.lax.Precision.HIGHEST)
'''


class Sums(StatisticRefs):
    """Statistics in Refs of (images, group * channels) in float32, and the code that works on
    them."""

    def clear(self) -> list[str]:
        """Sums begin at nothing."""
        lines: list[str] = []
        for level in range(1, self.conv.sweeps):
            begin = f"(sweep == {level - 1}) & (i == 0){self._image('0')}"
            refs = [self.stats[s.term] for s in self._at(level)]
            inner = [f"    {ref}[...] = jnp.zeros_like({ref})" for ref in refs]
            lines += ["", f"@pl.when({begin})", "def clear_sums():", *inner]
        return lines

    def guesses(self, level: int) -> list[str]:
        """The guesses of one level's means, made at its first chunk."""
        now = [s for s in self._at(level) if s.term in self.guessed]
        if not now:
            return []
        scope = self.scope(level)
        values = scope.write([self.conv.program[s.term].args[0] for s in now])
        lines = ["c = product(0, 0)", *scope.lines]
        images = ":1" if self.conv.across else ":"
        for s, value in zip(now, values, strict=True):
            ref = self.guessed[s.term]
            lines.append(f"guess = jnp.mean({value.at(100)}[:, {images}, :filters], axis=0)")
            if s.run > 1:
                lines.append(f"guess = over_run(guess, {s.run}) * {1.0 / s.run!r}")
            lines.append("guess = jnp.tile(guess, (1, group))")
            lines.append(f"{ref}[...] = jnp.broadcast_to(guess, {ref}.shape)")
        begin = f"(i == lag){self._image('0')}" if self.conv.across else "i == lag"
        return [
            f"@pl.when({begin})",
            "def guess_means():",
            *(f"    {line}" for line in lines),
            "",
        ]

    def gather(self, level: int) -> list[str]:
        """Adds a chunk to the sums of one level."""
        now = self._at(level)
        plain = [s for s in now if s.about is None]
        scope = self.scope(level)
        values = scope.write([self.conv.program[s.term].args[0] for s in plain])
        lines = [*scope.lines, *self._inside()]
        for s, value in zip(plain, values, strict=True):
            guess = self.guessed.get(s.term)
            text = f"{value.at(11)} - {guess}[...]" if guess else value.text
            seen = self.names.new("seen")
            lines.append(f"{seen} = jnp.where(inside, {text}, 0.0)")
            lines.append(f"{self.stats[s.term]}[...] += jnp.sum({seen}, axis=0)")
            lines += [
                f"{self.stats[other.term]}[...] += jnp.sum({seen} * {seen}, axis=0)"
                for other in now
                if other.about == s.term
            ]
        return lines

    def settle(self, level: int) -> list[str]:
        """Sums become statistics at the end of their sweep."""
        end = f"(sweep == {level - 1}) & (i == steps - 1){self._image('blocks - 1')}"
        order = sorted(self._at(level), key=lambda s: s.about is None)
        inner = [f"    {line}" for s in order for line in self._settled(s)]
        return ["", f"@pl.when({end})", "def settle():", *inner]

    def _at(self, level: int) -> list[Statistic]:
        return [s for s in self.conv.statistics if s.level == level]

    def _image(self, number: str) -> str:
        """One more condition where sums run over all images."""
        return f" & (block == {number})" if self.conv.across else ""

    def _inside(self) -> list[str]:
        """Which of a chunk's values are pixels of an image, not what lies beyond its last row."""
        flat = len(self.conv.conv.lhs) == 4
        row = "((i - lag) * groups + row)" if flat else "row"
        shape = "(ROWS, group * filters)"
        lines = [
            f"lane = jax.lax.broadcasted_iota(jnp.int32, {shape}, 1)",
            f"inside = {row} * group + lane // filters < rows",
        ]
        if self.conv.across:
            lines += [
                f"image = jax.lax.broadcasted_iota(jnp.int32, {shape}, 0)",
                "inside &= block * ROWS + image < images",
            ]
        return lines

    def _settled(self, s: Statistic) -> list[str]:
        """One statistic from its sum; variances first, they need the sum of differences."""
        program, ref = self.conv.program, self.stats[s.term]
        number = f"(count * {s.run})" if s.run > 1 else "count"
        if s.about is not None:
            scale = f" * {number}" if program[s.term].op == "sum" else ""
            spread = "squares - shift * shift"
            return [
                f"shift = {self._merged(self.stats[s.about], s)} / {number}",
                f"squares = {self._merged(ref, s)} / {number}",
                f"{ref}[...] = {f'({spread}){scale}' if scale else spread}",
            ]
        over = f" / {number}" if program[s.term].op == "mean" else ""
        guess = f"{self.guessed[s.term]}[...] + " if s.term in self.guessed else ""
        return [f"total = {self._merged(ref, s)}", f"{ref}[...] = {guess}total{over}"]

    def _merged(self, ref: str, s: Statistic) -> str:
        self.module.helpers.add(_MERGE_IMAGES if self.conv.across else _MERGE)
        text = f"merge({ref}[...], group)"
        if s.run == 1:
            return text
        self.module.helpers.add(_OVER_RUN)
        return f"over_run({text}, {s.run})"
