"""Code that kernels with a divided sum carry along. It is text: only a sandbox ever runs it."""

from __future__ import annotations

SPLIT_CALL = '''def split_call(
    body, *, grid, in_specs, out_specs, out_shape, scratch_shapes, compiler_params
):
    """`pl.pallas_call` whose last axis, a sum, is divided into PARTS parts side by side.

    `body` adds to its only scratch array at every step of that axis; the last step uses the
    sum. Each part makes a sum of its own; a second kernel adds them up and does the last step.
    """
    *outer, steps = grid
    own, length = len(outer), pl.cdiv(steps - 1, PARTS)
    parallel = ("parallel",) * own
    (total,) = scratch_shapes
    inputs, start = len(in_specs), (0,) * len(total.shape)
    block = tuple(size for size in out_specs.block_shape if size is not None)

    def one_part(*refs):
        operands, sums, unused = refs[:inputs], refs[inputs], refs[inputs + 1]
        at = pl.program_id(own + 1)

        @pl.when(pl.program_id(own) * length + at < steps - 1)
        def add():
            body(*operands, unused, sums, sum_step=at)

    def last_step(*refs):
        operands, sums, (out, scratch) = refs[:inputs], refs[inputs], refs[inputs + 1 :]
        scratch[...] = sum((sums[part] for part in range(1, PARTS)), sums[0])
        body(*operands, out, scratch, sum_step=steps - 1)

    def block_of_part(spec):
        def index(*at):
            step = jnp.minimum(at[own] * length + at[own + 1], steps - 2)
            return spec.index_map(*at[:own], step)

        return pl.BlockSpec(spec.block_shape, index)

    def last_block(spec):
        return pl.BlockSpec(
            spec.block_shape, lambda *at: spec.index_map(*at, steps - 1)
        )

    def whole(*refs):
        body(*refs, sum_step=pl.program_id(own))

    def call(*operands):
        if steps <= PARTS:
            return pl.pallas_call(
                whole,
                grid=grid,
                in_specs=in_specs,
                out_specs=out_specs,
                out_shape=out_shape,
                scratch_shapes=scratch_shapes,
                compiler_params=compiler_params,
            )(*operands)
        parts = pl.pallas_call(
            one_part,
            grid=(*outer, PARTS, length),
            in_specs=[block_of_part(spec) for spec in in_specs],
            out_specs=pl.BlockSpec(
                (*(None for _ in outer), None, *total.shape),
                lambda *at: (*at[:-1], *start),
            ),
            out_shape=jax.ShapeDtypeStruct((*outer, PARTS, *total.shape), total.dtype),
            scratch_shapes=[pltpu.VMEM(block, out_shape.dtype)],
            compiler_params=dataclasses.replace(
                compiler_params,
                dimension_semantics=(*parallel, "parallel", "arbitrary"),
            ),
        )(*operands)
        return pl.pallas_call(
            last_step,
            grid=tuple(outer),
            in_specs=[
                *(last_block(spec) for spec in in_specs),
                pl.BlockSpec(
                    (*(None for _ in outer), PARTS, *total.shape),
                    lambda *at: (*at, 0, *start),
                ),
            ],
            out_specs=last_block(out_specs),
            out_shape=out_shape,
            scratch_shapes=scratch_shapes,
            compiler_params=dataclasses.replace(
                compiler_params, dimension_semantics=parallel
            ),
        )(*operands, parts)

    return call
'''
"""A `pallas_call` with a divided sum. Needs `dataclasses`, jax, jnp, pl, pltpu and `PARTS`."""
