"""What a person would call an intermediate value."""

from __future__ import annotations

from maxkernel.engineers.builtin.terms import Program, Term

_BY_OP = {
    "sum": "row_sum",
    "amax": "row_max",
    "amin": "row_min",
    "iota": "column",
    "eq": "is_equal",
    "dot": "product",
    "exp": "exps",
    "where": "chosen",
    "mul": "scaled",
    "add": "shifted",
    "sub": "difference",
    "div": "ratio",
    "gelu": "activated",
    "silu": "activated",
    "mish": "activated",
    "logistic": "gate",
    "tanh": "squashed",
    "to_float": "as_float",
    "max": "clipped",
    "min": "clipped",
    "square": "squared",
    "log": "log_value",
    "sqrt": "root",
    "neg": "negated",
}


def hint(program: Program, term: int) -> str:
    """A name for the value of a term; callers make it unique."""
    t = program[term]
    if t.op == "input":
        return program.input(term).name
    for rule in (_mean, _centered, _inverse_root, _softmax):
        name = rule(program, t)
        if name:
            return name
    return _BY_OP.get(t.op, "value")


def _args(program: Program, t: Term, op: str) -> tuple[Term, ...]:
    return tuple(program[a] for a in t.args) if t.op == op else ()


def _mean(program: Program, t: Term) -> str | None:
    for arg in _args(program, t, "mean"):
        if arg.op != "square":
            return "mean"
        (inner,) = (program[a] for a in arg.args)
        return "variance" if inner.op == "sub" else "mean_square"
    return None


def _centered(program: Program, t: Term) -> str | None:
    args = _args(program, t, "sub")
    return "centered" if args and args[1].op == "mean" else None


def _inverse_root(program: Program, t: Term) -> str | None:
    for arg in _args(program, t, "rsqrt"):
        means = [program[a] for a in arg.args if program[a].op == "mean"]
        name = _mean(program, means[0]) if means else None
        return {"mean_square": "inverse_rms", "variance": "inverse_std"}.get(
            name or "", "inverse_root"
        )
    return None


def _softmax(program: Program, t: Term) -> str | None:
    for arg in _args(program, t, "sum"):
        if arg.op == "where" and program[arg.args[0]].op == "eq":
            return "picked"
        return "denominator" if arg.op == "exp" else None
    logs = [a for a in _args(program, t, "add") if a.op == "log"]
    if logs and any(program[a].op == "amax" for a in t.args):
        return "log_sum_exp"
    return None
