"""`python -m maxkernel.worker capture|compile|check|measure`: serves requests from its input."""

from __future__ import annotations

import sys

from maxkernel.worker import environment

KINDS = ("capture", "compile", "check", "measure")


def main() -> int:
    """Serves until standard input closes. Exit status 2 for an unknown kind."""
    kind = sys.argv[1] if len(sys.argv) == 2 else ""
    if kind not in KINDS:
        print(f"usage: python -m maxkernel.worker {'|'.join(KINDS)}", file=sys.stderr)
        return 2
    requests, replies = environment.prepare(kind)
    if kind == "capture":
        from maxkernel.worker.zygote import serve

        serve(requests, replies)
    else:
        from maxkernel.worker.serve import serve_trusted

        serve_trusted(kind, requests, replies)
    return 0


if __name__ == "__main__":
    sys.exit(main())
