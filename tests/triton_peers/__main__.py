"""`python -m tests.triton_peers CHECKOUT [FILE ...]`: run Triton's test files on kernbench, and count outcomes by reason."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.triton_peers.outcomes import ORDER, PASSED, SKIPPED
from tests.triton_peers.run import NothingRan, outcomes_of, print_table

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
    parser.add_argument("--part", default="1,1", metavar="I,N", help="each N-th of these cases, from the I-th on")
    parser.add_argument("-k", dest="chosen", default="", help="cases by name, as in pytest")
    parser.add_argument("--limit", type=int, default=20, help="[s] of CPU that a case may take")
    parser.add_argument("--seconds", type=int, help="stop a file after so many seconds, and count the cases before that")
    parser.add_argument("--portable", action="store_true", help="refuse what Triton's compiler refuses")
    parser.add_argument(
        "--numbers", default="65536,16",
        help="N,K: downcasts of test_conversions.py convert N numbers of each stretch of 2^24, and each K-th stretch (default: "
        "%(default)s; 16777216,1: all)",
    )  # fmt: skip
    parser.add_argument("--reasons", type=int, default=12, help="how many reasons of cases that do not pass are printed")
    parser.add_argument("--cases", action="store_true", help="print each case that does not pass, with its message")
    asked = parser.parse_intermixed_args()
    counts: dict[str, Counter[str]] = {}
    lines = []
    for name in asked.files or FILES:
        path = asked.checkout / asked.below / name
        settings = {
            "sample": asked.sample, "seed": asked.seed, "limit": asked.limit, "portable": int(asked.portable),
            "marked": int(FILES.get(name, False)), "numbers": asked.numbers, "part": asked.part,
        }  # fmt: skip
        try:
            found = outcomes_of(asked.checkout, [path], settings, chosen=asked.chosen, seconds=asked.seconds)
        except NothingRan as nothing:
            raise SystemExit(str(nothing)) from None
        counts[name] = Counter(one["outcome"] for one in found)
        lines += [one for one in found if one["outcome"] not in (PASSED, SKIPPED)]
    rows = [(name.rpartition("/")[2], sum(one.values()), *(one[each] for each in ORDER)) for name, one in counts.items()]
    print_table(("file", "cases", *ORDER), rows)
    reasons = Counter((one["outcome"], one["error"], one["shape"], one["test"]) for one in lines)
    for (outcome, error, shape, test), count in reasons.most_common(asked.reasons):
        print(f"{count:6}  {outcome}: {test}: {error}: {shape}")
    if asked.cases:
        for one in lines:
            print(f"{one['case']}\n    {one['outcome']} ({one['seconds']} s) {one['error']}: {one['text']}")
    return int(any(one["wrong number"] for one in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
