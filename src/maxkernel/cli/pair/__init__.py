"""The terminal's face of a pairing session. It decides nothing: see `modes.pair`."""

from maxkernel.cli.pair.command import run_pair as run_pair
