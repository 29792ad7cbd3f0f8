"""What the types must refuse: mypy needs every `type: ignore` here, and says so where one is not needed."""

import kernbench as kb

kb.run(3)  # type: ignore[arg-type]
kb.run("gemm", verify="yes")  # type: ignore[arg-type]
print(kb.run("gemm").cyles)  # type: ignore[attr-defined]
kb.simulate("a.json", 3)  # type: ignore[arg-type]
kb.compare("gemm")  # type: ignore[call-arg]
kb.DPPolicy(pe="rows")  # type: ignore[arg-type]
cycles: str = kb.run("gemm").cycles  # type: ignore[assignment]
