"""Strategies for one matrix product: which apply, how fast by estimate, and their source."""

from __future__ import annotations

from maxkernel.engineers.builtin.axes import Unsupported
from maxkernel.engineers.builtin.glue import finish
from maxkernel.engineers.builtin.matmul import bodies
from maxkernel.engineers.builtin.matmul.arguments import arguments
from maxkernel.engineers.builtin.matmul.blocks import Strategy, ragged, rank, tunables
from maxkernel.engineers.builtin.matmul.kernel import (
    DIVISOR,
    LAYOUTS,
    SERPENTINE,
    SLICE_HEIGHT,
    TAKEN,
    Call,
    kernel_text,
)
from maxkernel.engineers.builtin.matmul.match import MatmulProgram, match
from maxkernel.engineers.builtin.module import Module, Shapes, array_names, parameters
from maxkernel.engineers.builtin.running import is_statistic, statistics
from maxkernel.engineers.builtin.terms import REDUCTIONS, Program
from maxkernel.engineers.builtin.text import Names
from maxkernel.targets import Target
from maxkernel.types import Plan, TaskInfo

NAMES: dict[Strategy, str] = {
    "depth": "whole-k blocks, no accumulator, epilogue in the same step",
    "accumulate": "k innermost, accumulator in VMEM, epilogue with the last step",
    "rows": "whole rows gather in VMEM, then their epilogue",
    "pipelined": "whole rows gather in VMEM while those before them are finished",
    "running": "running statistics of rows while the columns pass",
}
_STORIES: dict[Strategy, str] = {
    "depth": "Blocks of whole k: no accumulator, and the epilogue overlaps the product.",
    "accumulate": "Partial products add up in an accumulator; the epilogue joins the last one.",
    "pipelined": "The epilogue of whole rows runs between the products of the next rows.",
    "running": "Rows' statistics fold in block after block; the product is never stored.",
    "rows": "All columns of some rows gather in VMEM, so statistics of whole rows cost no traffic.",
}


def plans(info: TaskInfo, program: Program, target: Target) -> list[Plan]:
    """Strategies for a product; raises Unsupported for any other program."""
    matmul = match(program)
    found: list[Plan] = []
    for strategy in applicable(matmul):
        ranked = rank(matmul, target, strategy)
        if not ranked:
            continue
        best = ranked[0]
        reason = (
            f"{_STORIES[strategy]} Blocks of {best.m} x {best.n}"
            f"{f' x {best.k}' if strategy == 'accumulate' else ''}: {best.why}."
        )
        if not any(program[t].op in REDUCTIONS for t in matmul.epilogue):
            reason += " XLA is near the limit for a dense product: expect parity."
        found.append(Plan("matmul", NAMES[strategy], reason, {}, best.seconds))
    if not found:
        raise Unsupported("no blocks of this product and its epilogue fit in VMEM")
    return found


def applicable(matmul: MatmulProgram) -> list[Strategy]:
    """Strategies that are correct for this epilogue."""
    found = statistics(matmul.program, matmul.region.terms, matmul.space.cols)
    if not found:
        return ["depth", "accumulate"]
    per_row = all(r.role == "row" for r in matmul.results)
    whole: list[Strategy] = ["rows"] if matmul.batch else ["pipelined", "rows"]
    return ["running", *whole] if per_row and all(s.level == 1 for s in found) else whole


def cut_of(matmul: MatmulProgram) -> int:
    """The term that `rows` gathers: the last one before the row statistics if there is only one,
    else the product itself."""
    program, epilogue = matmul.program, matmul.epilogue
    late = set[int]()
    for t in epilogue:
        if is_statistic(program, t, matmul.space.cols) or late & set(program[t].args):
            late.add(t)
    full = set(matmul.space.rows) | set(matmul.batch)
    frontier = {
        a
        for t in late
        for a in program[t].args
        if a not in late and program[a].axes & full and program[a].axes & set(matmul.space.cols)
    }
    frontier |= {r.term for r in matmul.results if r.term not in late}
    return frontier.pop() if len(frontier) == 1 else matmul.term


def _strategy(plan: Plan) -> Strategy:
    for strategy, name in NAMES.items():
        if name == plan.strategy:
            return strategy
    raise Unsupported(f"no strategy is called {plan.strategy!r}")


def implement(info: TaskInfo, program: Program, plan: Plan, target: Target) -> str:
    """Source for one of this family's plans."""
    matmul = match(program)
    strategy = _strategy(plan)
    space = tunables(rank(matmul, target, strategy), strategy)
    names = Names(TAKEN)
    parameter_names = parameters(info, names)
    arrays = tuple(array_names(info, parameter_names))
    single = len(matmul.results) == 1
    results = ["out"] if single else [f"out_{i}" for i in range(len(matmul.results))]
    module = Module("Matrix product with fused epilogue.", _STORIES[strategy], space)
    roots = [r.term for r in matmul.results]
    bound, scratch, layout = ["chunk_rows=chunk_rows"], list[str](), LAYOUTS[strategy]
    if strategy in ("rows", "pipelined"):
        cut = cut_of(matmul)
        tile = program.reach([cut], stop=lambda t: t == matmul.term)
        wide = program.reach(roots, stop=lambda t: t == cut)
        args = arguments(matmul, arrays, tile, wide)
        if strategy == "rows":
            text = bodies.whole_rows(matmul, cut, args, results, module)
            bound += ["finish_rows=finish_rows", "block_n=block_n"]
            scratch.append("pltpu.VMEM((block_m, n), gather_dtype)")
        else:
            text = bodies.pipelined(matmul, cut, args, results, module)
            bound += ["slice_rows=slice_rows", "block_n=block_n", "blocks=blocks"]
            scratch.append("pltpu.VMEM((2, block_m, n), gather_dtype)")
            module.helpers.add(SLICE_HEIGHT)
    elif strategy == "running":
        args = arguments(matmul, arrays, matmul.epilogue)
        open_ended = ragged(matmul, strategy)
        text, kept = bodies.running(matmul, args, results, module, open_ended)
        layout = LAYOUTS["ragged" if open_ended else strategy]
        bound += ["block_n=block_n", "n=n"]
        scratch += ["pltpu.VMEM((block_m, lanes), jnp.float32)" for _ in kept]
    else:
        args = arguments(matmul, arrays, matmul.epilogue)
        body = bodies.whole_depth if strategy == "depth" else bodies.accumulated
        text = body(matmul, args, results, module)
        if strategy == "accumulate":
            kind = "int32" if matmul.dot.dtype == "int32" else "float32"
            bound.append("steps=k // block_k")
            scratch.append(f"pltpu.VMEM((block_m, block_n), jnp.{kind})")
        else:
            bound.append("chunk_cols=chunk_cols")
            module.constants["CHUNK_COLS"] = ("512", "of a block: enough for the matrix unit")
    if layout is not LAYOUTS["ragged"]:
        module.helpers.add(DIVISOR)
    if strategy != "accumulate":
        module.helpers.add(SERPENTINE)
    limit = int(target.vmem_bytes * 0.94) >> 20
    module.constants["VMEM_LIMIT_BYTES"] = (
        f"{limit} * 2**20",
        "two buffers per block, and a chunk",
    )
    everything = [program.input(t) for t in program.live() if program[t].op == "input"]
    dot = matmul.dot
    shapes = Shapes(program, tuple(everything), arrays, dot.lhs_batch + dot.lhs_free + dot.rhs_free)
    after, returned = finish(program, matmul.region, results, shapes, names, module)
    the_call = Call(
        matmul=matmul,
        shapes=shapes,
        after=after,
        returned=returned,
        arguments=parameter_names,
        args=args,
        results=results,
        layout=layout,
        tunables=space,
        bound=bound,
        scratch=scratch,
    )
    module.functions = [text, kernel_text(the_call)]
    return module.render()
