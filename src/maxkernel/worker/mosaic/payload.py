"""Decodes a `tpu_custom_call` of an exported program into a `Kernel`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager  # pyright: ignore[reportMissingTypeStubs]

from maxkernel.worker.mosaic.errors import BadArtifact, Unsupported
from maxkernel.worker.mosaic.model import Kernel, Window
from maxkernel.worker.mosaic.read import location_of, read_attr, read_func, read_type
from maxkernel.worker.mosaic.syntax import Func

BODY_LIMIT = 16 << 20
"""Largest kernel body, bytes of MLIR bytecode."""

_CALL_ATTRIBUTES = {
    "call_target_name",
    "has_side_effect",
    "backend_config",
    "api_version",
    "called_computations",
    "operand_layouts",
    "result_layouts",
    "output_operand_aliases",
    "kernel_name",
    "mhlo.frontend_attributes",
}
_CONFIG = {"custom_call_config", "scoped_memory_configs", "flag_configs"}
_CALL_CONFIG = {
    "body",
    "has_communication",
    "collective_id",
    "cost_estimate",
    "needs_hlo_passes",
    "serialization_format",
    "needs_layout_passes",
    "shape_invariant_numerics",
    "allow_input_fusion",
    "internal_scratch_in_bytes",
    "output_memory_space_colors",
    "input_memory_space_colors",
    "disable_bounds_checks",
    "disable_semaphore_checks",
    "skip_device_barrier",
}
_WINDOW = {"window_bounds", "transform_indices", "window_kind", "pipeline_mode", "revisit_mode"}
_FUNCTION = {
    "function_type",
    "sym_name",
    "sym_visibility",
    "dimension_semantics",
    "iteration_bounds",
    "scalar_prefetch",
    "scratch_operands",
    "tpu.core_type",
    "window_params",
}
_ELEMENT = re.compile(r"#tpu\.element_window<\[([\d, ]*)\], ?\[([\d, ]*)\]>")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadArtifact("a key occurs twice in a kernel's backend configuration")
    return found


def _known(names: Any, known: set[str], where: str) -> None:
    extra = sorted(set(names) - known)
    if extra:
        raise Unsupported(f"{where} carries {', '.join(extra)}, which is not understood")


def read_config(text: str) -> tuple[bytes, dict[str, Any]]:
    """The body and the rest of a backend configuration; strict, so that no reader can differ."""
    try:
        config = json.loads(text, object_pairs_hook=_unique)
        call = config.pop("custom_call_config")
        encoded = call.pop("body")
        if len(encoded) > BODY_LIMIT * 4 // 3:
            raise BadArtifact(f"a kernel body of more than {BODY_LIMIT >> 20} MiB")
        body = base64.b64decode(encoded, validate=True)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise BadArtifact(f"a kernel's backend configuration cannot be read: {error}") from error
    _known(config, _CONFIG, "the backend configuration")
    _known(call, _CALL_CONFIG, "the kernel configuration")
    if call.get("serialization_format") != 1 or call.get("needs_layout_passes") is not True:
        raise Unsupported("a kernel body that is not block-level Mosaic of format 1")
    return body, {**config, **call}


def parse_body(body: bytes, context: ir.Context) -> ir.Module:
    """The Mosaic module of a kernel, upgraded from its versioned dialect."""
    try:
        module = ir.Module.parse(body, context=context)
        with context:
            PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)
    except (ir.MLIRError, ValueError, RuntimeError) as error:
        raise BadArtifact(f"a kernel body is not valid Mosaic: {str(error)[:500]}") from error
    return module


def _window(params: Any, transforms: dict[str, Func]) -> Window:
    if not params:
        return Window((), None)
    _known(params, _WINDOW, "a window")
    bounds = tuple(int(n) for n in params["window_bounds"])
    transform = transforms.get(str(params["transform_indices"]))
    if transform is None:
        raise BadArtifact(f"a window's transform {params['transform_indices']} does not exist")
    mode = getattr(params.get("pipeline_mode"), "text", "")
    kind = getattr(params.get("window_kind"), "text", "")
    if not kind:
        return Window(bounds, transform, pipeline_mode=mode)
    found = _ELEMENT.fullmatch(kind)
    if found is None:
        raise Unsupported(f"window kind {kind}")
    low, high = (tuple(int(n) for n in g.split(",")) for g in found.groups())
    return Window(bounds, transform, True, low, high, mode)


def _aliases(attr: Any, skipped: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in re.findall(r"output_operand_alias<[^>]*>", str(attr)):
        operand = re.search(r"operand_index = (\d+)", text)
        output = re.search(r"output_tuple_indices = \[(\d*)\]", text)
        if operand is None:
            raise BadArtifact(f"an alias that cannot be read: {text}")
        index = int(operand[1]) - skipped
        if index < 0:
            raise Unsupported("an output aliased to a scalar-prefetch operand")
        found[int(output[1]) if output and output[1] else 0] = index
    return found


def _split(module: ir.Module) -> tuple[Func, dict[str, Func]]:
    funcs = [read_func(op.operation) for op in module.body.operations]
    used = {
        str(params["transform_indices"])
        for f in funcs
        for params in f.attrs.get("window_params", ())
        if params
    }
    mains = [f for f in funcs if f.name not in used]
    if len(mains) != 1:
        raise BadArtifact(f"a kernel module with {len(mains)} entry functions instead of one")
    return mains[0], {f.name: f for f in funcs if f.name in used}


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(re.sub(r".*<(\w+)>", r"\1", v.text) for v in values)


def read_kernel(call: ir.Operation, context: ir.Context) -> Kernel:
    """The kernel of one `tpu_custom_call`. Raises `BadArtifact` or `Unsupported`."""
    _known(call.attributes, _CALL_ATTRIBUTES, "a tpu_custom_call")
    attrs = {n: read_attr(call.attributes[n]) for n in call.attributes if n != "operand_layouts"}
    body, config = read_config(str(attrs["backend_config"]))
    main, transforms = _split(parse_body(body, context))
    for func in (main, *transforms.values()):
        _known(func.attrs, _FUNCTION, f"function {func.name}")
    metadata: Any = attrs.get("mhlo.frontend_attributes", {})
    _known(metadata, {"kernel_metadata"}, "the frontend attributes of a kernel")
    if getattr(main.attrs.get("tpu.core_type"), "text", "") != "#tpu.core_type<tc>":
        raise Unsupported("a kernel that is not for the TensorCore")
    grid = tuple(int(n) for n in main.attrs.get("iteration_bounds", ()))
    dynamic = sum(n < 0 for n in grid)
    prefetch, scratch = (int(main.attrs[n]) for n in ("scalar_prefetch", "scratch_operands"))
    operands = [read_type(v.type) for v in call.operands]
    outputs = tuple(read_type(v.type) for v in call.results)
    refs = [main.types[a] for a in main.body.args[len(grid) :]]
    count = len(refs) - prefetch - scratch
    params = main.attrs.get("window_params", ({},) * count)
    if len(params) != count or len(operands) - dynamic - prefetch + len(outputs) != count:
        raise BadArtifact("a kernel's windows, operands and arguments do not match in number")
    return Kernel(
        name=str(attrs.get("kernel_name", main.name)),
        body=main,
        grid=grid,
        semantics=_texts(main.attrs.get("dimension_semantics", ())),
        prefetch=prefetch,
        windows=tuple(_window(p, transforms) for p in params),
        scratch=tuple(refs[len(refs) - scratch :]),
        inputs=tuple(operands[dynamic + prefetch :]),
        prefetched=tuple(operands[dynamic : dynamic + prefetch]),
        outputs=outputs,
        aliases=_aliases(call.attributes["output_operand_aliases"], dynamic + prefetch)
        if "output_operand_aliases" in attrs
        else {},
        config=config,
        side_effects=bool(attrs.get("has_side_effect", False)),
        location=location_of(call),
        histogram=Counter(op.name for op in main.walk()),
    )
