"""Hand-made schedules for tests: a line per bundle, numbered and wrapped as the compiler does."""

from pathlib import Path


def schedule(*bundles: str) -> str:
    """The text of a program. A bundle may end in `| Start region 3 :: End region 2`."""
    lines = ["= control target key start", "LB: loop body", "= control target key end", ""]
    for number, bundle in enumerate(bundles):
        body, _, regions = bundle.partition("|")
        marks = [regions.strip()] if regions.strip() else []
        if number == 0:
            marks.append("Start region 0")
        if number == len(bundles) - 1:
            marks.append("End region 0")
        comment = f" /* {' :: '.join(marks)} */" if marks else ""
        index = "     0" if number == 0 else f"{number:#6x}"
        lines.append(f"{index}   :  {{ {body.strip()} }}{comment}")
    return "\n".join(lines) + "\n"


def folder_of(path: Path, top: str, hlo: str = "", **ops: str) -> Path:
    """A dump folder with a top-level program and the programs of ops, by HLO name."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "1000-TLP-02-packed-bundles-post-ra.txt").write_text(top)
    (path / "1000-TLP-hlo.txt").write_text(hlo)
    for number, (name, text) in enumerate(ops.items()):
        (path / f"{1001 + number}-{name}-01-packed-bundles-post-ra.txt").write_text(text)
    return path


SLOTS = ("", "", "", "")
"""The four delay slots of a v6e branch."""


def counted_loop(count: int, *body: str, step: str = "1") -> tuple[str, ...]:
    """A loop over `body` whose counter is %s2; the rest of the program follows it."""
    return (
        "%s1_s0 = smov 0 | Start region 1",
        f"%s2_s0 = sphi %s1_s0, %s3_s0  ;;  %s3_s0 = sadd.s32 {step}, %s2_s0 | Start region 9",
        *body,
        f"%p4_p0 = scmp.ge.s32.totalorder %s3_s0, {count} /* loop exit test */",
        "%5 = sbr.rel (!%p4_p0) target bundleno = 1 (0x1), region = 9",
        *SLOTS,
    )
