"""Code that rewritten kernels carry along. It is text: only a sandbox ever runs it."""

from __future__ import annotations

FETCHED_CALL = '''class Fetch(NamedTuple):
    """An operand in HBM whose blocks are copied to buffers in VMEM ahead of their use.

    Blocks are numbered along the axes `span` of the grid and copied in the first round of
    the others. Where an operand `stays`, each block has a buffer; else they take turns.
    """

    hbm: jax.Array
    spec: pl.BlockSpec
    grid: tuple[int, ...]
    span: range
    stays: bool
    buffers: jax.Array
    arrived: jax.Array

    def step(self, at):
        """The number of a grid step's block, and whether no step before read it."""
        number, first = jnp.int32(0), True
        for axis, i in enumerate(at):
            if axis in self.span:
                number = number * self.grid[axis] + i
            else:
                first &= i == 0
        return number, first

    def slot(self, number, block):
        """The buffer of a block."""
        if not self.stays:
            return jax.lax.rem(number, self.buffers.shape[0])
        slot = 0
        sizes = zip(self.spec.block_shape, self.hbm.shape, strict=True)
        for i, (size, whole) in zip(block, sizes, strict=True):
            slot = slot * (whole // (size or 1)) + i
        return slot

    def copy(self, number):
        """The copy that brings a block."""
        at, rest = [0] * len(self.grid), number
        for axis in reversed(self.span[1:]):
            at[axis] = jax.lax.rem(rest, self.grid[axis])
            rest = jax.lax.div(rest, self.grid[axis])
        if self.span:
            at[self.span.start] = rest
        block = self.spec.index_map(*at)
        place = tuple(
            i if size is None else pl.ds(pl.multiple_of(i * size, size), size)
            for i, size in zip(block, self.spec.block_shape, strict=True)
        )
        slot = self.slot(number, block)
        target = self.buffers.at[slot]
        return pltpu.make_async_copy(self.hbm.at[place], target, self.arrived.at[slot])

    def blocks(self):
        """How many blocks there are."""
        return math.prod(self.grid[axis] for axis in self.span)

    def ahead(self, number, first):
        """Starts the copy of the block that is needed DEPTH - 1 blocks after this one."""
        if self.blocks() >= DEPTH:

            @pl.when(first & (number + DEPTH - 1 < self.blocks()))
            def start():
                self.copy(number + DEPTH - 1).start()

    def wait(self, number, first):
        """Waits for a block at the first step that reads it."""

        @pl.when(first)
        def arrive():
            self.copy(number).wait()


def numbering(axes, grid):
    """The axes that number an operand's blocks, and whether earlier axes repeat them."""
    used = [axis for axis in axes if grid[axis] > 1]
    span = range(used[0], used[-1] + 1) if used else range(0)
    if any(grid[axis] > 1 and axis not in used for axis in span):
        return range(span.stop), False
    return span, any(size > 1 for size in grid[: span.start])


def slots(operand, spec, axes, grid):
    """Buffers for an operand's blocks; 0 leaves it to the pipeline of `pallas_call`."""
    if axes is None:
        return 0
    sizes = zip(operand.shape, spec.block_shape, strict=True)
    parts = [divmod(whole, size or 1) for whole, size in sizes]
    blocks = math.prod(count for count, _ in parts)
    span, repeated = numbering(axes, grid)
    steps = math.prod(grid[axis] for axis in span)
    if any(rest for _, rest in parts) or blocks > steps:
        return 0
    if not repeated:
        return min(DEPTH, steps)
    fits = operand.size * operand.dtype.itemsize <= RESIDENT_BYTES
    return blocks if fits and blocks == steps else 0


def fetched_call(body, *, grid, in_specs, axes, scratch_shapes=(), **options):
    """`pl.pallas_call`, with operands' blocks on their way up to DEPTH - 1 steps ahead.

    `axes`: the axes of the grid on which each operand's blocks depend; None leaves it to
    the pipeline of `pallas_call`, and so do blocks that do not divide it or that `axes`
    has too few steps for.
    """

    def call(*operands):
        specs, own, buffers = list(in_specs), [], []
        for k, operand in enumerate(operands):
            count = slots(operand, specs[k], axes[k], grid)
            if count:
                own.append(k)
                shape = [size for size in specs[k].block_shape if size is not None]
                buffers.append(pltpu.VMEM((count, *shape), operand.dtype))
                buffers.append(pltpu.SemaphoreType.DMA((count,)))
                specs[k] = pl.BlockSpec(memory_space=pl.ANY)

        def fetching(*refs):
            given = len(refs) - len(buffers)
            refs, spare = list(refs[:given]), iter(refs[given:])
            fetches = [
                Fetch(
                    refs[k],
                    in_specs[k],
                    grid,
                    *numbering(axes[k], grid),
                    next(spare),
                    next(spare),
                )
                for k in own
            ]
            at = [pl.program_id(axis) for axis in range(len(grid))]

            @pl.when(sum(at) == 0)
            def fill():
                for number in range(DEPTH - 1):
                    for fetch in fetches:
                        if number < fetch.blocks():
                            fetch.copy(jnp.int32(number)).start()

            steps = [fetch.step(at) for fetch in fetches]
            for fetch, step in zip(fetches, steps, strict=True):
                fetch.ahead(*step)
            for k, fetch, step in zip(own, fetches, steps, strict=True):
                fetch.wait(*step)
                slot = fetch.slot(step[0], fetch.spec.index_map(*at))
                refs[k] = fetch.buffers.at[slot]
            body(*refs)

        return pl.pallas_call(
            fetching,
            grid=grid,
            in_specs=specs,
            scratch_shapes=[*scratch_shapes, *buffers],
            **options,
        )(*operands)

    return call
'''
"""A `pallas_call` that fetches operands by its own copies. Needs `math`, `NamedTuple`, jax, jnp,
pl, pltpu, and the constants `DEPTH` and `RESIDENT_BYTES`."""
