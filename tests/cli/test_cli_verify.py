"""A report is judged again from its bundle alone, and what was changed in it is seen."""

import json
from pathlib import Path
from typing import Any

from maxkernel.report.seal import seal_of


def changed(bundle: Path, folder: Path, *, sealed: bool = False, **fields: Any) -> str:
    """A copy of the bundle whose report tells something else; sealed anew if asked."""
    folder.mkdir()
    for name in ("kernel.py", "report.json"):
        (folder / name).write_text((bundle / name).read_text())
    document = json.loads((folder / "report.json").read_text()) | fields
    if sealed:
        document["seal"] = seal_of(document)
    (folder / "report.json").write_text(json.dumps(document))
    return str(folder)


def disagreeing(found: dict[str, Any]) -> list[str]:
    return [f["claim"] for f in found["findings"] if f["agrees"] is False]


def test_a_report_is_verified_and_changes_are_seen(cli: Any) -> None:
    _, report = cli.json("optimize", "norm.py", "--budget-candidates", "1")
    bundle = cli.folder / report["bundle"]
    status, found = cli.json("verify", str(bundle))
    assert (status, disagreeing(found)) == (0, []), found
    claims = {finding["claim"]: finding for finding in found["findings"]}
    assert claims["errors"]["agrees"] and "last bit" in claims["errors"]["words"]
    assert claims["confirmed"]["agrees"] and claims["speedup"]["agrees"]
    assert claims["full size"]["agrees"] and "last bit" in claims["full size"]["words"]
    told = json.loads((bundle / "report.json").read_text())
    kinds = {item["kind"] for item in told["checklist"]}
    assert kinds == {"proven", "measured", "unknown"}

    for change in ({"notes": ["none"]}, {"seconds": 1.0}, {"extra": 1}, {"speedup": 99.0}):
        assert seal_of(told | change) != told["seal"]
    forged = changed(bundle, cli.folder / "forged", extra=1)
    status, found = cli.json("verify", forged)
    assert (status, disagreeing(found)) == (1, ["seal"])
    resealed = changed(bundle, cli.folder / "resealed", sealed=True, speedup=99.0)
    status, found = cli.json("verify", resealed)
    assert (status, disagreeing(found)) == (1, ["speedup"])
    spot = told["confirmation"]["spot"]
    assert spot["seed"] and {trial["name"] for trial in told["confirmation"]["trials"]} > {"large"}
    confirmation = told["confirmation"] | {"spot": spot | {"seed": spot["seed"] + 1}}
    other_seed = changed(bundle, cli.folder / "seed", sealed=True, confirmation=confirmation)
    _, found = cli.json("verify", other_seed)
    claims = {finding["claim"]: finding for finding in found["findings"]}
    assert not claims["full size"]["agrees"]
    kernel = cli.folder / "other"
    changed(bundle, kernel)
    (kernel / "kernel.py").write_text((bundle / "kernel.py").read_text() + "\n")
    status, found = cli.json("verify", str(kernel))
    assert (status, disagreeing(found)) == (1, ["kernel"])


def test_what_is_no_report_is_wrong_use(cli: Any) -> None:
    status, out, err = cli.run("verify", "norm.py")
    assert status == 2
    assert "is not a report" in out + err


def test_judge_says_what_was_proven_and_what_was_left_out(cli: Any) -> None:
    status, out, _ = cli.run("judge", "norm.py", "kernel.py")
    assert status == 0
    assert "what this rests on" in out
    assert "right on 3 further secret seeds" in out and "random blocks" in out
    assert "right on other inputs: uniform" in out
    status, out, _ = cli.run("judge", "norm.py", "kernel.py", "--quick")
    assert status == 0
    assert "further secret seeds" not in out
    assert "not looked for" in out and "one in turn, not on all" in out
