"""An NPU is one PE: what asks for `pe` asks both kinds of machine alike."""

from __future__ import annotations

from kernbench import load_config


def test_an_npu_is_its_own_pe() -> None:
    npu, system = load_config("npu_mobile"), load_config("single_cube")
    assert npu.pe is npu and npu.pe_path == "" and dict(npu.components) == {}
    assert system.pe_path == "pe." and {"dma", "spm", "te", "ve"} <= type(system.pe).model_fields.keys()
    assert all(hasattr(npu.pe, name) for name in ("dma", "spm", "te", "ve"))


def test_views_of_a_pe_are_in_no_file() -> None:
    npu = load_config("npu_mobile")
    assert not {"pe", "components", "pe_path"} & npu.to_dict().keys()
    assert npu.digest() == load_config(npu.to_dict()).digest()
