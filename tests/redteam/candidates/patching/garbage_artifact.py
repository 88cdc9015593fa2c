# attack: the programs are random bytes
# task: rows
# verdict: refused capture/forbidden
# bypassed: refused compile/compile


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


reply(bytes(range(256)) * 64, b"jaxexport")
