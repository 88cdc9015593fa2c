# attack: a callback's custom call in a program whose facts are forged
# task: rows
# verdict: refused capture/forbidden
# bypassed: refused compile/compile

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl


def body(x_ref, scale_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
    y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)
    out_ref[...] = (y * scale_ref[...]).astype(out_ref.dtype)


def kernel(x, scale):
    d = x.shape[1]
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(x.shape[0], 32),),
        in_specs=[
            pl.BlockSpec((32, d), lambda i: (i, 0)),
            pl.BlockSpec((1, d), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((32, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], x.shape[1]), x.dtype),
    )(x, scale.reshape(1, d))


import os

import msgspec

from maxkernel.types import ArraySpec, Artifact, ArtifactFacts, PallasCall
from maxkernel.types.messages import CaptureReply


def reply(tpu, check):
    facts = ArtifactFacts(
        pallas_calls=(PallasCall("norm", (16,)),),
        outputs=(ArraySpec((512, 512), "bfloat16"),),
        check_outputs=(ArraySpec((80, 256), "bfloat16"),),
    )
    frame = msgspec.msgpack.encode(CaptureReply(Artifact(tpu, check, facts)))
    frame = len(frame).to_bytes(4, "big") + frame
    while frame:
        frame = frame[os.write(3, frame) :]
    os._exit(0)


def target(x, scale):
    y = kernel(x, scale)
    return jax.ffi.ffi_call("xla_python_cpu_callback", y)(y)


def unchecked(shapes):
    from jax import export

    allowed = [export.DisabledSafetyCheck.custom_call("xla_python_cpu_callback")]
    structs = [
        jax.ShapeDtypeStruct(s, t) for s, t in zip(shapes, (jnp.bfloat16, jnp.float32), strict=True)
    ]
    found = export.export(jax.jit(target), platforms=["tpu"], disabled_checks=allowed)(*structs)
    return bytes(found.serialize())


reply(unchecked(((512, 512), (512,))), unchecked(((80, 256), (256,))))
