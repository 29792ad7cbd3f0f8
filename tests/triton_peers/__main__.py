"""`python -m tests.triton_peers CHECKOUT [FILE ...]`: run Triton's test files on kernbench, and count outcomes by reason."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.triton_peers.outcomes import ORDER, PASSED, SKIPPED

UNIT = Path("python/test/unit")
#: file: whether only its cases with Triton's mark for its interpreter are counted
FILES = {
    "language/test_core.py": True,
    "language/test_standard.py": True,
    "language/test_tuple.py": True,
    "language/test_random.py": True,
    "language/test_conversions.py": False,
    "language/test_tensor_descriptor.py": True,
    "language/test_libdevice.py": False,
    "language/test_decorator.py": False,
}


def main() -> int:
    """Exit code 1 if a case has a wrong number."""
    parser = argparse.ArgumentParser(prog="python -m tests.triton_peers", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of Triton's repository")
    parser.add_argument("files", nargs="*", help=f"test files (default: {', '.join(FILES)})")
    parser.add_argument("--below", type=Path, default=UNIT, help=f"the folder of the files in the checkout (default: {UNIT})")
    parser.add_argument("--sample", type=int, default=0, help="how many cases of each file (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("-k", dest="chosen", default="", help="cases by name, as in pytest")
    parser.add_argument("--limit", type=int, default=20, help="[s] of CPU that a case may take")
    parser.add_argument("--seconds", type=int, help="stop a file after so many seconds, and count the cases before that")
    parser.add_argument("--portable", action="store_true", help="refuse what Triton's compiler refuses")
    parser.add_argument("--reasons", type=int, default=12, help="how many reasons of cases that do not pass are printed")
    parser.add_argument("--cases", action="store_true", help="print each case that does not pass, with its message")
    asked = parser.parse_intermixed_args()
    counts: dict[str, Counter[str]] = {}
    lines = []
    for name in asked.files or FILES:
        found = _run(asked, name)
        counts[name] = Counter(one["outcome"] for one in found)
        lines += [one for one in found if one["outcome"] not in (PASSED, SKIPPED)]
    _print(counts)
    reasons = Counter((one["outcome"], one["error"], one["shape"], one["test"]) for one in lines)
    for (outcome, error, shape, test), count in reasons.most_common(asked.reasons):
        print(f"{count:6}  {outcome}: {test}: {error}: {shape}")
    if asked.cases:
        for one in lines:
            print(f"{one['case']}\n    {one['outcome']} ({one['seconds']} s) {one['error']}: {one['text']}")
    return int(any(one["wrong number"] for one in counts.values()))


def _run(asked: argparse.Namespace, name: str) -> list[dict[str, str]]:
    path = (asked.checkout / asked.below / name).resolve()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcomes"
        out.touch()
        here = Path(__file__).parents[2]
        settings = {
            "TRITON_INTERPRET": "1",
            "PYTHONPATH": os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "KB_PEERS_CHECKOUT": str(asked.checkout.resolve()),
            "KB_PEERS_OUT": str(out),
            "KB_PEERS_SAMPLE": str(asked.sample),
            "KB_PEERS_SEED": str(asked.seed),
            "KB_PEERS_LIMIT": str(asked.limit),
            "KB_PEERS_PORTABLE": str(int(asked.portable)),
            "KB_PEERS_MARKED": str(int(FILES.get(name, False))),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider"]
        command += ["-p", "tests.triton_peers.plugin", "--rootdir", str(path.parent), "--confcutdir", str(path.parent)]
        command += ["-c", os.devnull, "--import-mode=prepend", str(path), *(["-k", asked.chosen] if asked.chosen else [])]
        try:
            done = subprocess.run(
                command, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=asked.seconds
            )
            said = done.stdout[-3000:] + done.stderr[-2000:]
        except subprocess.TimeoutExpired:
            said = f"stopped after {asked.seconds} s"
            print(f"{name}: {said}; the cases before that are counted", file=sys.stderr)
        found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        if not found:
            print(said, file=sys.stderr)
            raise SystemExit(f"{name}: no case ran")
        return found


def _print(counts: dict[str, Counter[str]]) -> None:
    heads = ("file", "cases", *ORDER)
    rows = [(name.rpartition("/")[2], sum(found.values()), *(found[one] for one in ORDER)) for name, found in counts.items()]
    widths = [max(len(str(row[i])) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        cells = [str(cell) for cell in row]
        print("  ".join([cells[0].ljust(widths[0]), *(one.rjust(w) for one, w in zip(cells[1:], widths[1:], strict=True))]))


if __name__ == "__main__":
    sys.exit(main())
