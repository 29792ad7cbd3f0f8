"""`kbsim llm`: a language model on a machine: tokens a second, and why."""

from kernbench.cli.llm.command import llm

__all__ = ["llm"]
