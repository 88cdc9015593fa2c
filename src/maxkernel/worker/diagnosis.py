"""What an exception of tracing, lowering or compiling means: a kind, and the next thing to try.

Patterns are those of jax 0.10 and libtpu 0.0.42; what matches none is `trace` or `compile`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from maxkernel.types.evaluation import FailureKind, Stage


@dataclass(frozen=True)
class Rule:
    """Applies where the exception is one of `types` (or any) and `pattern` is in its message."""

    kind: FailureKind
    advice: str
    types: tuple[str, ...] = ()
    pattern: str = ""
    stages: tuple[Stage, ...] = ()

    def applies(self, names: set[str], text: str, stage: Stage) -> bool:
        """Whether this rule is about the exception."""
        if self.types and not names & set(self.types):
            return False
        if self.stages and stage not in self.stages:
            return False
        return not self.pattern or re.search(self.pattern, text, re.IGNORECASE) is not None


RULES = (
    Rule(
        "syntax",
        "the source must be a Python file that defines kernel(*inputs, **tunables)",
        ("SyntaxError",),
    ),
    Rule(
        "forbidden",
        "a candidate reaches no files, processes or network: compute from the inputs alone",
        ("OSError",),
    ),
    Rule(
        "memory",
        "tracing needs no big arrays: build them inside the kernel, or take them as inputs",
        ("MemoryError",),
    ),
    Rule(
        "memory",
        "make arrays inside `kernel`, where they are traced, not while the module is imported",
        pattern=r"out of memory allocating|RESOURCE_EXHAUSTED",
        stages=("capture", "check"),
    ),
    Rule(
        "vmem",
        "keep less in SMEM: scalars and small index tables only; larger tables go to VMEM or HBM",
        pattern=r"space=smem|memory space smem|smem[^\n]*(exceed|limit|capacity)",
    ),
    Rule(
        "vmem",
        "use smaller blocks or less scratch (each block is held twice), or raise"
        " pltpu.CompilerParams(vmem_limit_bytes=...) where the chip has more",
        pattern=r"memory space vmem|space=vmem|vmem[^\n]*(exceed|limit|capacity|exhaust)",
    ),
    Rule(
        "hbm",
        "the program keeps more arrays in HBM than the chip has: fuse steps or use smaller dtypes",
        pattern=r"memory space hbm|space=hbm|hbm[^\n]*(exceed|capacity)|exceeds available HBM",
    ),
    Rule("hbm", "keep fewer or smaller arrays at once", pattern=r"RESOURCE_EXHAUSTED"),
    Rule(
        "api",
        "pl.BlockSpec takes (block_shape, index_map), in this order",
        ("TypeError",),
        r"'function' object is not iterable|BlockSpec",
    ),
    Rule("api", "this name does not exist in the installed jax", ("ImportError",)),
    Rule("api", "this name does not exist in the installed jax", ("AttributeError",)),
    Rule(
        "api",
        "the installed jax does not take this argument",
        ("TypeError",),
        r"unexpected keyword argument|multiple values for argument",
    ),
    Rule(
        "output_spec",
        "return the output arrays: one, or a tuple of them",
        ("TypeError",),
        r"not a valid JAX type",
    ),
    Rule(
        "trace",
        "kernel receives every input of the task by position, and its tunables by name",
        ("TypeError",),
        r"kernel\(\) (takes|missing|got)",
    ),
    Rule(
        "trace",
        "values inside a kernel are traced: use pl.when, jnp.where or lax.cond, and shapes or"
        " tunables for what must be known at compile time",
        (
            "ConcretizationTypeError",
            "TracerArrayConversionError",
            "TracerBoolConversionError",
            "TracerIntegerConversionError",
        ),
    ),
    Rule(
        "trace",
        "store a value of the ref's own shape and dtype: ref[...] = value.astype(ref.dtype)",
        ("ValueError",),
        r"for `swap`",
    ),
    Rule(
        "block_shape",
        "the last two sizes of a block must be multiples of 8 and 128, or equal the array's",
        pattern=r"last two dimensions of your block shape|block shape[^\n]*(divisible|multiple)|"
        r"(rank|ndim|dimensions) [^\n]*block|block_shape|divisible by the tiling|"
        r"index_map|not aligned|misaligned|unaligned",
    ),
    Rule(
        "unsupported",
        "express it with elementwise operations, reductions, jnp.dot and whole-block slices"
        " (on 32-bit types where layouts are the problem), or do it outside the kernel",
        pattern=r"unimplemented primitive|not implemented|unsupported|not supported|"
        r"(cannot|can't|could not) be lowered|failed to legalize|no lowering|only supported",
    ),
    Rule("unsupported", "write it with operations that a TPU has", ("NotImplementedError",)),
)
"""The first that applies decides."""

MOVED_NAMES = {
    "TPUCompilerParams": "pltpu.CompilerParams",
    "TPUMemorySpace": "pltpu.MemorySpace",
    "TPUInterpretParams": "pltpu.InterpretParams",
    "ANY": "pl.ANY",
    "dma_start": "pltpu.make_async_copy(...).start()",
    "tree_map": "jax.tree.map",
    "tree_multimap": "jax.tree.map",
    "maps": "jax.shard_map",
    "pjit": "jax.jit",
    "load": "ref[...] (plain indexing)",
    "store": "ref[...] = value (plain indexing)",
    "dimension_semantics": "compiler_params=pltpu.CompilerParams(dimension_semantics=...)",
    "mosaic_params": "compiler_params=pltpu.CompilerParams(...)",
    "grid_names": "compiler_params=pltpu.CompilerParams(...)",
}
"""Names and keywords of older Pallas code, with what jax 0.10 calls them."""


def diagnose(error: BaseException, stage: Stage) -> tuple[FailureKind, str]:
    """Kind and advice for an exception that capture, compile or check ended with."""
    names = {base.__name__ for base in type(error).__mro__}
    text = str(error)
    for rule in RULES:
        if rule.applies(names, text, stage):
            moved = _moved_name(text) if rule.kind == "api" else ""
            return rule.kind, moved or rule.advice
    compiler = names & {"JaxRuntimeError", "XlaRuntimeError", "VerificationError", "MLIRError"}
    if stage == "compile" or compiler:
        return "compile", "read the compiler's lines and change the operation that they name"
    if stage == "check":
        return "crash", "the captured program does not run on the CPU: see the message"
    return "trace", "call jax.make_jaxpr(kernel) on the inputs to see the whole traceback"


def _moved_name(text: str) -> str:
    for name in re.findall(r"['\"](\w+)['\"]", text):
        if name in MOVED_NAMES:
            return f"{name} is gone: use {MOVED_NAMES[name]}"
    return ""
