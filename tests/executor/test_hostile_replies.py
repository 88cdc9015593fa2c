"""Replies of a capture are parsed as if the candidate had written them."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxkernel.executor.hostile import TEXT_LIMIT, HostileDecoder
from maxkernel.types import ArtifactFacts, Failure, PallasCall
from maxkernel.types.artifact import Artifact
from maxkernel.types.messages import CaptureReply, FailureReply, Outline, OutlineReply

DECODER = HostileDecoder()


def test_texts_are_cut_and_cannot_steer_a_terminal() -> None:
    call = PallasCall(name="evil\x1b[2J\u202e" + "x" * 10_000, grid=(1,))
    facts = ArtifactFacts(pallas_calls=(call,), primitives={"add\x07": 1})
    reply = CaptureReply(Artifact(b"\x00\x1b", b"\xff", facts), "line\n\ttab\rback\x9b")
    decoded = DECODER.decode(msgspec.msgpack.encode(reply))
    assert isinstance(decoded, CaptureReply)
    name = decoded.artifact.facts.pallas_calls[0].name
    assert name.startswith("evil?[2J?x") and len(name) == TEXT_LIMIT
    assert decoded.artifact.facts.primitives == {"add?": 1}
    assert decoded.artifact.tpu == b"\x00\x1b"
    assert decoded.output == "line\n\ttab?back?"


@pytest.mark.parametrize("kind", ["environment", "reference", "inputs", "mismatch"])
def test_a_candidate_cannot_blame_the_machine_or_the_task(kind: str) -> None:
    failure = Failure("trace", kind, "message")  # type: ignore[arg-type]
    decoded = DECODER.decode(msgspec.msgpack.encode(FailureReply(failure)))
    assert isinstance(decoded, FailureReply)
    assert (decoded.failure.stage, decoded.failure.kind) == ("capture", "crash")
    decoded = DECODER.decode(msgspec.msgpack.encode(OutlineReply((Outline(failure=failure),))))
    assert isinstance(decoded, OutlineReply) and decoded.outlines[0].failure is not None
    assert decoded.outlines[0].failure.kind == "crash"


@pytest.mark.parametrize(
    "body",
    [
        {"type": "checked", "numerics": {}},
        {"type": "captured", "artifact": {"tpu": "text", "check": b"", "facts": {}}},
        {"type": "failed", "failure": {"stage": "capture", "kind": "fine", "message": ""}},
        {"type": "failed", "failure": {"stage": "capture", "kind": "trace", "message": 7}},
        [],
        None,
    ],
)
def test_wrong_types_are_refused(body: object) -> None:
    with pytest.raises(msgspec.MsgspecError):
        DECODER.decode(msgspec.msgpack.encode(body))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_decode_or_raise_one_error(body: bytes) -> None:
    try:
        DECODER.decode(body)
    except msgspec.MsgspecError:
        return
