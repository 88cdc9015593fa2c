"""The commands of the terminal: names, arguments, help."""

from __future__ import annotations

import msgspec


class Command(msgspec.Struct, frozen=True):
    """One command as help and completion show it."""

    name: str
    arguments: str
    help: str


COMMANDS = (
    Command("plan", "", "ask the planner for plans, and see those on the table side by side"),
    Command("implement", "[PLAN]", "write the kernel of a plan (the best one not tried yet)"),
    Command(
        "edit", "[kernel|plan [PLAN]]", "open $EDITOR on the kernel, on a plan, or on a new one"
    ),
    Command("judge", "[DESIGN]", "capture, compile, check and time the kernel"),
    Command("debug", "[DESIGN]", "have a refused kernel repaired"),
    Command("tune", "[N]", "search the constants, with at most N evaluations"),
    Command("profile", "[DESIGN]", "say what limits the kernel"),
    Command("explain", "[FIRST-LAST]", "explain the kernel, or those lines of it"),
    Command("compare", "A B", "two designs side by side, and the difference of their sources"),
    Command(
        "accept", "[DESIGN]", "check the kernel on fresh inputs once more and write the bundle"
    ),
    Command("reject", "[plan PLAN|DESIGN] [WHY]", "refuse a plan or the kernel; planners hear why"),
    Command("undo", "", "take the last decision back"),
    Command("redo", "", "restore the decision taken back last"),
    Command("branch", "DESIGN", "go on from another design"),
    Command("auto", "[N]", "let the loop run N rounds, then come back"),
    Command("stop", "", "end the running stage as soon as it can"),
    Command("show", "[DESIGN]", "print the kernel"),
    Command("graph", "", "the designs as a tree"),
    Command("note", "TEXT", "a remark that planners hear"),
    Command("budget", "[N [SECONDS]]", "what is spent; with N, the new limit of evaluations"),
    Command("approve", "all|plans|none", "what waits for your word"),
    Command("export", "[FILE]", "the whole run as one HTML file"),
    Command("help", "", "this list"),
    Command("quit", "", "leave; nothing is lost, `maxkernel pair --resume` comes back here"),
)
NAMES = tuple(command.name for command in COMMANDS)
