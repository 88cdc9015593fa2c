"""The command line. `main` is its only entry; nothing heavy is imported before a command runs."""

from maxkernel.cli.main import main as main
