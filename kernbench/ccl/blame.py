"""Where in an algorithm's own file an error came from: below its kernel are helpers of this package."""

from __future__ import annotations

import inspect
import os
import traceback

from kernbench.ccl.contract import Algorithm


def place_in(algorithm: Algorithm, error: BaseException | None) -> str:
    """`mine.py:21, in kernel`: the innermost frame, in the file of the algorithm's kernel, of the error or of what caused it;
    empty without one."""
    code = getattr(inspect.unwrap(algorithm.kernel), "__code__", None)
    while error is not None and code is not None:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename == code.co_filename:
                return f"{os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}"
        error = error.__cause__
    return ""
