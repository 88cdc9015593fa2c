"""Statistics of images whose pixels lie in lanes: one sum per channel and lane, lanes added last.

A variance is taken about a guess of the mean, as in `sums`: the mean of an image's first row.
"""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.axes import Dim
from maxkernel.engineers.builtin.conv.match import Statistic
from maxkernel.engineers.builtin.conv.refs import StatisticRefs
from maxkernel.engineers.builtin.expr import Code
from maxkernel.engineers.builtin.text import call

_OVER_PIXELS = '''def over_pixels(add, x, cols, nothing):
    """Adds up lanes, the sum in every lane; those beyond `cols` hold no pixels."""
    lane = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    total = add(jnp.where(lane < cols, x, nothing), axis=1, keepdims=True)
    return jnp.broadcast_to(total, x.shape)
'''
OVER_RUN = '''def over_run(x, size):
    """Sums of runs of `size` channels, in every channel of the run, as a product."""
    shape = (x.shape[0], x.shape[0])
    source = jax.lax.broadcasted_iota(jnp.int32, shape, 0) // size
    target = jax.lax.broadcasted_iota(jnp.int32, shape, 1) // size
    same = jnp.where(source == target, 1.0, 0.0)
    return jnp.dot(same, x, precision=jax.lax.Precision.HIGHEST)
'''
"""A helper of emitted modules."""
_NOTHING = {"sum": "0.0", "mean": "0.0", "amax": "-jnp.inf", "amin": "jnp.inf"}
_ADD = {"sum": "jnp.sum", "mean": "jnp.sum", "amax": "jnp.max", "amin": "jnp.min"}
_JOIN = {"amax": "jnp.maximum", "amin": "jnp.minimum"}


@dataclass(frozen=True)
class PlaneSums(StatisticRefs):
    """Statistics in Refs of (images, channels, lanes) in float32, and their code."""

    at: str = "[image]"

    def _columns(self) -> tuple[Dim, int]:
        return self.conv.channels, -2

    def sweep(self, level: int) -> list[str]:
        """Everything that makes the statistics of one level."""
        now = [s for s in self.conv.statistics if s.level == level]
        starts = [
            f"{ref}[...] = jnp.full_like({ref}, {nothing})"
            if (nothing := _NOTHING[self.conv.program[s.term].op]) != "0.0"
            else f"{ref}[...] = jnp.zeros_like({ref})"
            for s in now
            for ref in [self.stats[s.term]]
        ]
        return [
            "",
            *starts,
            *self._guesses(level, [s for s in now if s.term in self.guessed]),
            *looped("gather", "t", self._gather(level, now), "count * steps"),
            *looped("settle", "image", self._settle(now), "count"),
        ]

    def write(self, level: int, roots: list[int]) -> tuple[list[str], list[str], list[Code]]:
        """(statements about an image as a whole, statements about `c`, values of `roots`)."""
        program, scope = self.conv.program, self.scope(level)
        reached = program.reach(roots, stop=scope.known.__contains__)
        pixels = {self.conv.term}
        for t in reached:
            if t not in scope.known and pixels.intersection(program[t].args):
                pixels.add(t)
        used = [a for t in reached if t in pixels and t not in scope.known for a in program[t].args]
        for t in dict.fromkeys(used):
            if t not in pixels and program[t].op != "literal":
                (code,) = scope.write([t])
                if not code.text.isidentifier():
                    scope.assign(t, code)
        before = list(scope.lines)
        values = scope.write(roots)
        return before, scope.lines[len(before) :], values

    def _guesses(self, level: int, now: list[Statistic]) -> list[str]:
        if not now:
            return []
        before, lines, values = self.write(level, [self._of(s) for s in now])
        lines = ["c = product(image * steps, 0, 1)", *before, *lines]
        for s, value in zip(now, values, strict=True):
            lines += self._total("sum", f"{value.at(100)}[0]", s)
            lines.append(f"{self.guessed[s.term]}[image] = total / {_times('cols', s)}")
        return looped("guess", "image", lines, "count")

    def _gather(self, level: int, now: list[Statistic]) -> list[str]:
        plain = [s for s in now if s.about is None]
        before, lines, values = self.write(level, [self._of(s) for s in plain])
        for s, value in zip(plain, values, strict=True):
            op, ref = self.conv.program[s.term].op, self.stats[s.term]
            text = value.text
            if s.term in self.guessed:
                guess = self.names.new("middle")
                before.append(f"{guess} = {self.guessed[s.term]}[image]")
                text = f"{value.at(10)} - {guess}"
            seen = self.names.new("seen")
            lines.append(call("inside", [text, "t", "j", _NOTHING[op]], 0, f"{seen} = "))
            if op in _JOIN:
                lines.append(f"{seen} = {_ADD[op]}({seen}, axis=0)")
                lines.append(f"{ref}[image] = {_JOIN[op]}({ref}[image], {seen})")
            else:
                lines.append(f"{ref}[image] += jnp.sum({seen}, axis=0)")
            lines += [
                f"{self.stats[other.term]}[image] += jnp.sum({seen} * {seen}, axis=0)"
                for other in now
                if other.about == s.term
            ]
        return per_group(before, lines)

    def _settle(self, now: list[Statistic]) -> list[str]:
        """Sums become statistics."""
        program = self.conv.program
        lines: list[str] = []
        for s in now:
            op, ref = program[s.term].op, f"{self.stats[s.term]}[image]"
            number = _times("rows * cols", s)
            if s.about is not None:
                continue
            lines += self._total(op, ref, s)
            if s.term not in self.guessed:
                lines.append(f"{ref} = total" + (f" / {number}" if op == "mean" else ""))
                continue
            lines.append(f"shift = total / {number}")
            lines.append(f"{ref} = {self.guessed[s.term]}[image] + shift")
            for other in (o for o in now if o.about == s.term):
                spread = f"{self.stats[other.term]}[image]"
                lines += self._total("sum", spread, other)
                value = f"total / {number} - shift * shift"
                scale = f" * {number}" if program[other.term].op == "sum" else ""
                lines.append(f"{spread} = {f'({value}){scale}' if scale else value}")
        return lines

    def _of(self, s: Statistic) -> int:
        return self.conv.program[s.term].args[0]

    def _total(self, op: str, text: str, s: Statistic) -> list[str]:
        """`total` becomes the sum (or maximum) over an image's pixels, and over the run."""
        self.module.helpers.add(_OVER_PIXELS)
        lines = [f"total = over_pixels({_ADD[op]}, {text}, cols, {_NOTHING[op]})"]
        if s.run > 1:
            self.module.helpers.add(OVER_RUN)
            lines.append(f"total = over_run(total, {s.run})")
        return lines


def looped(name: str, counter: str, inner: list[str], trips: str) -> list[str]:
    """A loop without a carry, and its body as a function."""
    return [
        "",
        f"def {name}({counter}, carry):",
        *(f"    {line}".rstrip() for line in inner),
        "    return carry",
        "",
        f"jax.lax.fori_loop(0, {trips}, {name}, 0)",
    ]


def per_group(before: list[str], lines: list[str]) -> list[str]:
    """A step: what an image as a whole gives, then its groups of rows."""
    inner = ["c = product(t, j)", *lines]
    return [
        "image = t // steps",
        *before,
        "for j in range(unroll):",
        *(f"    {line}" for line in inner),
    ]


def _times(number: str, s: Statistic) -> str:
    text = f"{number} * {s.run}" if s.run > 1 else number
    return f"({text})" if "*" in text else text
