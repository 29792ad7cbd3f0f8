"""`docs/ccl_tables.py`: what a table calls the resource that was asked of most."""

from __future__ import annotations

import pytest

from tests.docs.test_build import DOCS, part

pytestmark = pytest.mark.skipif(not (DOCS / "ccl_tables.py").exists(), reason="the documentation is not in this source tree")


@pytest.mark.parametrize(
    ("bound", "kind"),
    [
        ("sip0.cube0.pe0 ve", "vector engine"),
        ("sip0.cube0.r0c0-sip0.cube0.pe0.pe_dma", "PE's link"),
        ("sip0.cube0.hbm_ctrl.ch0", "HBM channel"),
        ("sip0.cube0.r0c0-sip0.cube0.ucie_w0", "UCIe"),
        ("sip0.cube0.ucie_w0-sip0.io0.io_noc", "UCIe"),
        ("sip2.io1.io_noc-sip3.io0.io_noc", "link between SIPs"),
        ("sip0.cube4.r3c2-sip0.cube4.r0c2", "mesh link"),
    ],
)
def test_resources_by_their_names(bound: str, kind: str) -> None:
    assert part("ccl_tables").kind_of(bound) == kind
