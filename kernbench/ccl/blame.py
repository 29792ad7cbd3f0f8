"""Where in an algorithm's own file an error came from: below its kernel are helpers of this package."""

from __future__ import annotations

import os
import traceback

from kernbench.ccl.contract import Algorithm


def place_in(algorithm: Algorithm, error: BaseException | None) -> str:
    """`mine.py:21, in kernel`: the innermost frame of the error in the file of the algorithm's kernel; empty without one."""
    code = getattr(algorithm.kernel, "__code__", None)
    if error is None or code is None:
        return ""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == code.co_filename:
            return f"{os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}"
    return ""
