"""A slider on the page is a variable like others: what a person moves is in the history, and goes back with it."""

from __future__ import annotations

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph

pytest.importorskip("ipywidgets")


def test_a_slider_that_is_moved_goes_back_on_the_page(opened: OpenNew, photograph: Photograph) -> None:
    document = opened(
        "import ipywidgets\nslider = ipywidgets.IntSlider(value=3, description='rows')\nslider",
        "double = 2 * slider.value",
        "%agent rollback HEAD~2",
        "",
    )
    document.run(1)
    shown = document.cell(1).locator(".widget-readout")
    expect(shown).to_have_text("3")
    shown.fill("4")
    shown.press("Enter")
    expect(shown).to_have_text("4")
    document.run(2)
    assert document.ask("slider.value, double") == "4 8"
    document.run(3)
    expect(shown).to_have_text("3")
    photograph("slider-rolled-back", document.cell(3))
    assert document.ask("slider.value, 'double' in globals()") == "3 False"
    shown.fill("4")
    shown.press("Enter")
    expect(shown).to_have_text("4")
