"""Rewrites of what a kernel keeps in VMEM."""

from __future__ import annotations

import ast

from maxkernel.engineers.rewrites.edits import Edits, keyword, last_argument


def narrow_scratch(source: str) -> str | None:
    """float32 scratch arrays that are written once per value hold bfloat16 instead."""
    edits = Edits(source)
    for call in (*edits.calls("pallas_call"), *edits.calls("fetched_call")):
        scratch = keyword(call, "scratch_shapes")
        body = _body(edits, call)
        if not isinstance(scratch, ast.List | ast.Tuple) or body is None:
            continue
        names = [a.arg for a in body.args.args][-len(scratch.elts) :]
        for name, shape in zip(names, scratch.elts, strict=False):
            if _is_float32(shape) and not _accumulates(body, name):
                _narrow(edits, body, name, shape)
    return edits.result()


def single_buffers(source: str) -> str | None:
    """Blocks that the innermost grid axis does not change get one buffer: room for others."""
    edits = Edits(source)
    for call in edits.calls("pallas_call"):
        for spec in edits.calls("BlockSpec", keyword(call, "in_specs")):
            index = spec.args[1] if len(spec.args) > 1 else keyword(spec, "index_map")
            if not isinstance(index, ast.Lambda) or keyword(spec, "pipeline_mode") is not None:
                continue
            parameters = [a.arg for a in index.args.args]
            used = {n.id for n in ast.walk(index.body) if isinstance(n, ast.Name)}
            if len(parameters) > 1 and parameters[-1] not in used:
                edits.append(last_argument(spec), ", pipeline_mode=pl.Buffered(1)")
    return edits.result()


def _body(edits: Edits, call: ast.Call) -> ast.FunctionDef | None:
    """The kernel function of a `pallas_call`, by name, through `functools.partial`."""
    if not call.args:
        return None
    first = call.args[0]
    if isinstance(first, ast.Call) and first.args:
        first = first.args[0]
    name = ast.unparse(first)
    return next((f for f in edits.functions() if f.name == name), None)


def _is_float32(shape: ast.expr) -> bool:
    return isinstance(shape, ast.Call) and ast.unparse(shape).endswith("jnp.float32)")


def _accumulates(body: ast.FunctionDef, name: str) -> bool:
    """True when what is stored depends on what was there: rounding would add up."""
    for node in ast.walk(body):
        if isinstance(node, ast.AugAssign) and _root(node.target) == name:
            return True
        if isinstance(node, ast.Assign) and _root(node.targets[0]) == name:
            reads = {_root(n) for n in ast.walk(node.value) if isinstance(n, ast.Subscript)}
            if name in reads:
                return True
    return False


def _narrow(edits: Edits, body: ast.FunctionDef, name: str, shape: ast.expr) -> None:
    edits.replace(shape, edits.text(shape).replace("jnp.float32", "jnp.bfloat16"))
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and _root(node.targets[0]) == name:
            edits.replace(node.value, f"({edits.text(node.value)}).astype(jnp.bfloat16)")
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and _root(node) == name
            and not isinstance(node.value, ast.Attribute)
        ):
            edits.append(node, ".astype(jnp.float32)")


def _root(node: ast.expr) -> str:
    """The Ref that `node` is an element of."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return node.value.id
    return ""
