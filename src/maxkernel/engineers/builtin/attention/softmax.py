"""Recognises a softmax between two products, whatever way it is written."""

from __future__ import annotations

from dataclasses import dataclass

from maxkernel.engineers.builtin.attention.masks import BLOCKED
from maxkernel.engineers.builtin.axes import Dim, Unsupported
from maxkernel.engineers.builtin.terms import Program


@dataclass(frozen=True)
class Softmax:
    """exp(scores - top) / total over `keys`; `sink` is a score without a key and a value."""

    scores: int
    keys: Dim
    exps: int
    sink: int | None


def read_softmax(program: Program, weights: int, output: int, product: int) -> Softmax:
    """The softmax that the second product's `weights` are, or whose total divides the output."""
    for top, base in ((weights, None), (output, product)):
        split = divided(program, top)
        if split and (base is None or split[0] == base):
            exps = split[0] if base is None else weights
            return _softmax(program, exps, split[1])
    raise Unsupported("what stands between the two products is no softmax")


def divided(program: Program, term: int) -> tuple[int, int] | None:
    """(a, b) when the term is a / b."""
    t = program[term]
    if t.op == "div":
        return t.args[0], t.args[1]
    if t.op == "mul":
        for a, b in (t.args, t.args[::-1]):
            if program[b].op == "div" and program.literal(program[b].args[0]) == 1.0:
                return a, program[b].args[1]
    return None


def _softmax(program: Program, exps: int, total: int) -> Softmax:
    if program[exps].op != "exp":
        raise Unsupported("the weights of the second product are no exponentials")
    (shifted,) = program[exps].args
    scores, top = shifted, None
    if program[shifted].op == "sub":
        scores, top = program[shifted].args
    total, extra = _sum_and_extra(program, total, exps)
    keys: Dim = program[total].attr("over")
    sink = None if extra is None else _sink(program, extra, top)
    if top is not None and not _is_top(program, top, scores, sink):
        raise Unsupported("the weights are shifted by something other than their maximum")
    return Softmax(scores, keys, exps, sink)


def _sum_and_extra(program: Program, total: int, exps: int) -> tuple[int, int | None]:
    args = program[total].args if program[total].op == "add" else (total,)
    sums = [a for a in args if program[a].op == "sum" and program[a].args == (exps,)]
    rest = [a for a in args if a not in sums]
    if len(sums) != 1 or len(rest) > 1:
        raise Unsupported("the weights are not divided by their sum")
    return sums[0], rest[0] if rest else None


def _sink(program: Program, extra: int, top: int | None) -> int:
    if program[extra].op == "exp":
        (inner,) = program[extra].args
        if top is None:
            return inner
        if program[inner].op == "sub" and program[inner].args[1] == top:
            return program[inner].args[0]
    raise Unsupported("the sum of the weights holds something that is no sink")


def _is_top(program: Program, top: int, scores: int, sink: int | None) -> bool:
    t = program[top]
    args = t.args if t.op == "max" else (top,)
    maxima = [a for a in args if program[a].op == "amax" and program[a].args == (scores,)]
    return bool(maxima) and all(a in maxima or a == sink for a in args)


def unmask(program: Program, scores: int) -> tuple[int, list[int], list[int]]:
    """(scores below their masks, conditions of visible keys, conditions of hidden keys)."""
    seen: list[int] = []
    hidden: list[int] = []
    while True:
        t = program[scores]
        if t.op == "where" and _blocked(program, t.args[2]):
            seen.append(t.args[0])
            scores = t.args[1]
        elif t.op == "where" and _blocked(program, t.args[1]):
            hidden.append(t.args[0])
            scores = t.args[2]
        else:
            added = _added_mask(program, scores)
            if added is None:
                return scores, seen, hidden
            scores, condition, visible = added
            (seen if visible else hidden).append(condition)


def _blocked(program: Program, term: int) -> bool:
    value = program.literal(term)
    return value is not None and float(value) <= BLOCKED


def _added_mask(program: Program, term: int) -> tuple[int, int, bool] | None:
    t = program[term]
    for base, mask in (t.args, t.args[::-1]) if t.op == "add" else ():
        m = program[mask]
        if m.op == "where":
            yes, no = m.args[1:]
            if program.literal(yes) == 0 and _blocked(program, no):
                return base, m.args[0], True
            if program.literal(no) == 0 and _blocked(program, yes):
                return base, m.args[0], False
    return None
