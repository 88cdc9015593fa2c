"""The module of a ragged paged attention kernel."""

from __future__ import annotations

from maxkernel.engineers.builtin.module import Module, array_names, parameters
from maxkernel.engineers.builtin.paged.ragged import Ragged
from maxkernel.engineers.builtin.text import Names, call, doc, number
from maxkernel.types import TaskInfo, TunableSpace

_OWN = tuple(
    "tokens heads width slots groups active counts by_group words out blocks items "
    "most block_q block_pages decode_pages wanted block pages scalars attend run work_list".split()
)
_WORK_LIST = '''def work_list(counts, block, tokens):
    """Number of items (1,), and slot and first query of each: blocks of a slot's queries."""
    blocks = pl.cdiv(counts, block)
    last = jnp.cumsum(blocks)
    most = counts.shape[0] + (tokens // block if block > 1 else 0)
    item = jnp.arange(most)
    slot = jnp.minimum(jnp.sum(last <= item[:, None], axis=1), counts.shape[0] - 1)
    offset = (item - (last - blocks)[slot]) * block
    return last[-1:].astype(jnp.int32), slot.astype(jnp.int32), offset.astype(jnp.int32)
'''
_ATTEND = '''def attend(
    items_ref,
    slot_ref,
    offset_ref,
    lengths_ref,
    table_ref,
    ends_ref,
    counts_ref,
    q_hbm,
    pool,
    _,
    out_hbm,
    q_ref,
    pages_ref,
    top_ref,
    total_ref,
    acc_ref,
    page_semaphores,
    token_semaphore,
    *,
    page,
):
    """One block of a slot's queries against the pages up to its last position."""
    item = pl.program_id(0)
    groups, block, per_group, width = q_ref.shape
    pages = pages_ref.shape[1]
    positions = pages * page
    slot, offset = slot_ref[item], offset_ref[item]
    valid = jnp.minimum(counts_ref[slot] - offset, block)
    first_token = ends_ref[slot] + offset
    shift = jnp.maximum(first_token + block - q_hbm.shape[1], 0)
    first_position = lengths_ref[slot] - counts_ref[slot] + offset
    needed = pl.cdiv(first_position + valid, page)
    blocks = pl.cdiv(needed, pages)

    def fetch(j, turn):
        def one_page(i, _):
            source = pool.at[table_ref[slot, j * pages + i]]
            target = pages_ref.at[turn, i]
            pltpu.make_async_copy(source, target, page_semaphores.at[turn]).start()
            return 0

        count = jnp.minimum(needed - j * pages, pages)

        @pl.when(count == pages)
        def _whole():
            jax.lax.fori_loop(0, pages, one_page, 0, unroll=min(pages, UNROLL))

        @pl.when(count < pages)
        def _part():
            jax.lax.fori_loop(0, count, one_page, 0)

    def wait(j, turn):
        def one_page(i, _):
            target = pages_ref.at[turn, i]
            pltpu.make_async_copy(target, target, page_semaphores.at[turn]).wait()
            return 0

        count = jnp.minimum(needed - j * pages, pages)

        @pl.when(count == pages)
        def _whole():
            target = pages_ref.at[turn]
            pltpu.make_async_copy(target, target, page_semaphores.at[turn]).wait()

        @pl.when(count < pages)
        def _part():
            jax.lax.fori_loop(0, count, one_page, 0)

    def one_group(g, j, turn):
        # Key and value of a group share 32-bit words: one strided load yields both.
        rows = pages_ref.at[turn].reshape(2 * groups * positions, width)
        pairs = rows.bitcast(jnp.uint32)[pl.ds(g, positions, stride=groups), :]
        k, v = (
            jax.lax.bitcast_convert_type(half, jnp.float32).astype(pages_ref.dtype)
            for half in (pairs << 16, pairs & jnp.uint32(0xFFFF0000))
        )
        q = q_ref[g].reshape(block * per_group, width)
        s = jax.lax.dot_general(q, k, NT, preferred_element_type=jnp.float32)
        row = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0)
        last = first_position + jax.lax.div(row, per_group) - shift
        position = j * positions + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1)
        s = jnp.where(position <= last, SCALE * s, HIDDEN)
        top = top_ref[g]
        new_top = jnp.maximum(top, jnp.max(s, axis=1, keepdims=True))
        weights = jnp.exp2(s - new_top)
        shrink = jnp.exp2(top - new_top)
        top_ref[g] = new_top
        total_ref[g] = shrink * total_ref[g] + jnp.sum(weights, axis=1, keepdims=True)
        values = jnp.dot(weights.astype(v.dtype), v, preferred_element_type=jnp.float32)
        acc_ref[g] = shrink * acc_ref[g] + values

    def one_block(j, _):
        turn = jax.lax.rem(j, 2)

        @pl.when(j + 1 < blocks)
        def _ahead():
            fetch(j + 1, 1 - turn)

        wait(j, turn)
        for g in range(groups):
            one_group(g, j, turn)
        return 0

    def copy_token(t):
        source = q_ref.at[:, pl.ds(shift + t, 1)]
        target = out_hbm.at[:, pl.ds(first_token + t, 1)]
        return pltpu.make_async_copy(source, target, token_semaphore)

    @pl.when(item == 0)
    def _first():
        # Rows that no page reaches have weight 0; what they hold must be finite.
        pages_ref[...] = jnp.zeros_like(pages_ref)

    @pl.when(item < items_ref[0])
    def _item():
        fetch(0, 0)
        queries = q_hbm.at[:, pl.ds(first_token - shift, block)]
        loading = pltpu.make_async_copy(queries, q_ref, token_semaphore)
        loading.start()
        top_ref[...] = jnp.full_like(top_ref, 0.1 * HIDDEN)
        total_ref[...] = jnp.zeros_like(total_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)
        loading.wait()
        jax.lax.fori_loop(0, blocks, one_block, 0)
        total = total_ref[...]
        average = acc_ref[...] / jnp.where(total > 0, total, 1.0)
        q_ref[...] = average.reshape(q_ref.shape).astype(q_ref.dtype)
        jax.lax.fori_loop(0, valid, lambda t, _: (copy_token(t).start(), 0)[1], 0)
        jax.lax.fori_loop(0, valid, lambda t, _: (copy_token(t).wait(), 0)[1], 0)
'''
_RUN = '''def run(scalars, q, words, out, block, pages):
    """The items of one work list; results go to their own rows of `out`."""
    groups, _, per_group, width = q.shape
    rows = words.shape[1]
    in_hbm = pl.BlockSpec(memory_space=pl.ANY)
    scratch = [
        pltpu.VMEM((groups, block, per_group, width), q.dtype),
        pltpu.VMEM((2, pages, rows, width), words.dtype),
        pltpu.VMEM((groups, block * per_group, 1), jnp.float32),
        pltpu.VMEM((groups, block * per_group, 1), jnp.float32),
        pltpu.VMEM((groups, block * per_group, width), jnp.float32),
        pltpu.SemaphoreType.DMA((2,)),
        pltpu.SemaphoreType.DMA,
    ]
    return pl.pallas_call(
        functools.partial(attend, page=rows // (2 * groups)),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalars),
            grid=(scalars[1].shape[0],),
            in_specs=[in_hbm, in_hbm, in_hbm],
            out_specs=in_hbm,
            scratch_shapes=scratch,
        ),
        out_shape=jax.ShapeDtypeStruct(out.shape, out.dtype),
        input_output_aliases={len(scalars) + 2: 0},
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",),
            vmem_limit_bytes=VMEM_LIMIT_BYTES,
        ),
    )(*scalars, q, words, out)
'''
_KERNEL = """    tokens, heads, width = {q}.shape
    slots, groups = {lengths}.shape[0], {pool}.shape[2] // 2
    active = {active}
    counts = jnp.where(active, {ends}[1:] - {ends}[:-1], 0)
    by_group = {q}.reshape(tokens, groups, heads // groups, width).transpose(1, 0, 2, 3)
    words = {pool}.reshape({pool}.shape[0], -1, width)
    most = {table}.shape[1]
    out = jnp.zeros_like(by_group)
    for wanted, block, pages in (
        (counts == 1, 1, decode_pages),
        (counts > 1, min(block_q, tokens), block_pages),
    ):
        items = work_list(jnp.where(wanted, counts, 0), block, tokens)
        scalars = (*items, {lengths}, {table}, {ends}, counts)
        out = run(scalars, by_group, words, out, block, min(pages, most))
    return out.transpose(1, 0, 2, 3).reshape(tokens, heads, width)
"""
LOG2_E = 1.4426950408889634


def ragged_module(
    info: TaskInfo, r: Ragged, tunables: TunableSpace, vmem_limit: int, story: str
) -> str:
    """Source of one ragged paged attention kernel."""
    arguments = parameters(info, Names(_OWN))
    arrays = array_names(info, arguments)
    lengths = arrays[r.lengths]
    active = f"{lengths} > 0" if r.active is None else f"jnp.arange(slots) < {arrays[r.active]}"
    module = Module("Ragged paged attention.", story, tunables)
    module.constants["HIDDEN"] = ("-1e30", "score of a position that a query does not see")
    module.constants["NT"] = ("(((1,), (1,)), ((), ()))", "both operands contracted by columns")
    module.constants["SCALE"] = (number(r.scale * LOG2_E), "of scores, and log2(e) for exp2")
    module.constants["UNROLL"] = ("8", "pages whose copies are issued per trip of a loop")
    module.constants["VMEM_LIMIT_BYTES"] = (f"{vmem_limit >> 20} * 2**20", "")
    defaults = [f"{name}={choices[0]}" for name, choices in tunables.items()]
    text = _KERNEL.format(
        q=arrays[r.queries], pool=arrays[r.pool], lengths=lengths, table=arrays[r.table],
        ends=arrays[r.ends], active=active,
    )  # fmt: skip
    if r.active is None:
        text = text.replace("slots, groups = ", "groups = ").replace(f"{lengths}.shape[0], ", "")
    kernel = "\n".join(
        [
            call("kernel", [*arguments, "*", *defaults], 0, "def ", ":"),
            doc("Decodes in one kernel, chunks of prompts in another, both into one output.", 4),
            text,
        ]
    )
    module.functions += [_WORK_LIST, _ATTEND, _RUN, kernel]
    return module.render()
