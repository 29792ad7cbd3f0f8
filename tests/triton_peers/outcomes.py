"""What a case of Triton's tests came to, by reason."""

from __future__ import annotations

import re

PASSED, SKIPPED, REFUSED, WRONG, FAILED, SLOW = "pass", "skip", "refused", "wrong number", "failed", "slow"
ORDER = (PASSED, SKIPPED, REFUSED, WRONG, FAILED, SLOW)
#: Errors that mean: a name, a type or an idiom is refused with a reason.
_REFUSALS = ("TritonError", "NameRefused", "CompilationError", "UnsupportedLanguageConstruct", "InputError", "KernelError")
#: An error of Python inside of a kernel, which is no refusal.
_WRAPPED = re.compile(
    r"^(\S+:\d+: )?(Type|Value|Attribute|Name|Index|Key|Assertion|ZeroDivision|NotImplemented|Recursion)\w*Error:"
)
#: An assertion on the text of an error: no number is wrong.
_OF_MESSAGES = re.compile(r"Regex pattern did not match|^assert None\n.*re\.search|in 'None'", re.DOTALL)


def of_error(kind: str, text: str) -> str:
    """The reason of an exception, by the name of its class and its message."""
    if kind in _REFUSALS:
        return FAILED if _WRAPPED.search(text.partition("\n")[0]) else REFUSED
    if kind == "AssertionError" and not _OF_MESSAGES.search(text):
        return WRONG
    return FAILED


def shape_of(text: str) -> str:
    """A message without its numbers and places, so that equal ones count as one."""
    line = re.sub(r"^[\w./-]+:\d+: ", "", text.strip().partition("\n")[0])
    return re.sub(r"0x[0-9a-f]+|\d+", "N", line)[:150]
