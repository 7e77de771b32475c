"""What cells show: what counts as content, and what is another one in each run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.reproduction.assessment import Settings
from agent_kernel.reproduction.comparison import compare_outputs, normalise, outputs_of_file
from agent_kernel.reproduction.equality import Tolerance
from agent_kernel.reproduction.line import SavedOutput
from tests.reproduction.histories import cell, reproduced


def text(*printed: str) -> list[SavedOutput]:
    return [SavedOutput("stream", "stdout", one) for one in printed]


def outcome(old: list[SavedOutput], new: list[SavedOutput]) -> str:
    return compare_outputs(outputs_of_file(old), outputs_of_file(new), Tolerance()).outcome


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<object at 0x7f00aa>", "<object at 0x7f11bb>"),
        ("<function <lambda> at 0x7f00aa>", "<function <lambda> at 0x7f11bb>"),
        ("<weakref at 0x7f00aa; to 'A' at 0x7f00ab>", "<weakref at 0x7f11bb; to 'A' at 0x7f11bc>"),
        ("&lt;__main__.A at 0x7f00aa&gt;", "&lt;__main__.A at 0x7f11bb&gt;"),
        ("<__main__.A object at 0x7f00aa...", "<__main__.A object at 0x7f11bb..."),
        (
            "<bound method A.f of <__main__.A object at 0x7f00aa>>",
            "<bound method A.f of <__main__.A object at 0x7f11bb>>",
        ),
        ("100%|██████████| 9/9 [00:01<00:00,  8.9it/s]", "100%|██████████| 9/9 [00:00<00:00, 91.2it/s]"),
        ("10%\r50%\r100% done", "30%\r100% done"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("line  \n", "line\n"),
    ],
)
def test_addresses_progress_and_colours_are_no_content(old: str, new: str) -> None:
    assert normalise("text/plain", old) == normalise("text/plain", new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0x1234bb0a11", "0x7f00aa0b22"),
        ("wallet 0x1234bb", "wallet 0x7f00aa"),
        ("paid at 0x1234bb", "paid at 0x7f00aa"),
        ("crc object at 0xdeadbee0", "crc object at 0xdeadbee1"),
        ("if a < b object at 0xdeadbee0 >", "if a < b object at 0xdeadbee1 >"),
        ("<b> paid at 0x1234bb >", "<b> paid at 0x7f00aa >"),
        ("id-123e4567-e89b-12d3-a456-426614174000", "id-123e4567-e89b-12d3-a456-426614174999"),
        ("cfcd208495d565ef66e7dff9f98764da", "c4ca4238a0b923820dcc509a6f75849b"),
        ("T_300", "T_310"),
        ("sk-container-id-1", "sk-container-id-2"),
        ("12345678901", "12345678902"),
        (str(2**64), str(2**64 + 1)),
        ("1" * 400, "1" * 399 + "2"),
        ("1700000000.0", "1700000001.0"),
        ("1e12", "1.000000000001e12"),
        ("17%|", "71%|"),
        ("17%| of all", "71%| of all"),
        ("50%|█████     | 5/10 [00:01<00:01, 5.0it/s]", "40%|████      | 4/10 [00:01<00:01, 5.0it/s]"),
    ],
)
def test_other_numbers_are_content(old: str, new: str) -> None:
    assert outcome(text(old), text(new)) == "different"


def test_text_in_pieces_is_the_same_text() -> None:
    assert outcome(text("a\n", "b\n"), text("a\nb\n")) == "same"


def test_which_stream_came_first_is_no_difference() -> None:
    out, err = SavedOutput("stream", "stdout", "o\n"), SavedOutput("stream", "stderr", "e\n")
    assert outcome([out, err], [err, out]) == "same"


def test_printed_numbers_have_the_tolerance() -> None:
    assert outcome(text("loss 0.30000000000000004"), text("loss 0.3")) == "equal within tolerance"
    assert outcome(text("loss 0.31"), text("loss 0.3")) == "different"


def test_a_difference_shows_the_first_lines_that_differ() -> None:
    verdict = compare_outputs(outputs_of_file(text("a\nb\nc")), outputs_of_file(text("a\nB\nc")), Tolerance())
    assert verdict.details[:2] == ("− b", "− c")
    assert "+ B" in verdict.details


def test_a_picture_is_compared_by_its_bytes() -> None:
    one, other = (
        [SavedOutput("display_data", representations={"image/png": given, "text/plain": "<Figure>"})]
        for given in ("QUJD", "QUJE")
    )
    assert outcome(one, one) == "same"
    verdict = compare_outputs(outputs_of_file(one), outputs_of_file(other), Tolerance())
    assert verdict.details == ("different picture (image/png, 3 → 3 bytes)",)


STYLED = (
    "<style>#T_{0}_row0 {{color: red}}</style><table id='T_{0}'><td id=\"T_{0}_row0\" data-k='{2}'>{1}</td></table>"
)


def page(html: str) -> list[SavedOutput]:
    return [SavedOutput("display_data", representations={"text/html": html})]


def test_ids_of_elements_are_no_content_and_the_text_of_a_page_is() -> None:
    assert outcome(page(STYLED.format("ab12c", 1, 2)), page(STYLED.format("0fe39", 1, 2))) == "same"
    for text in ("T_ab12d", "cfcd208495d565ef66e7dff9f98764da", "sk-container-id-2"):
        assert outcome(page(STYLED.format("ab12c", 1, 2)), page(STYLED.format("0fe39", text, 2))) == "different"
    crossed = "<b id='T_ab12c'></b><b id='T_ab12d'></b><i for='{}'></i>"
    assert outcome(page(crossed.format("T_ab12c")), page(crossed.format("T_ab12d"))) == "different"


def widget(text: str, model: str) -> list[SavedOutput]:
    view: dict[str, object] = {"application/vnd.jupyter.widget-view+json": {"model_id": model}}
    return [SavedOutput("display_data", representations=view | ({"text/plain": text} if text else {}))]


def test_of_a_widget_the_text_is_compared_and_a_state_that_it_does_not_say_is_not() -> None:
    assert outcome(widget("HTML(value='acc 1')", "a"), widget("HTML(value='acc 2')", "b")) == "different"
    assert outcome(widget("HTML(value='acc 1')", "a"), []) == "different"
    assert outcome(widget("HTML(value='acc 1')", "a"), widget("HTML(value='acc 1')", "b")) == "same"
    for text in ("", "<my.Widget object>", "VBox(children=(Output(),))"):
        assert outcome(widget(text, "a"), widget(text, "b")) == "not comparable"


def test_a_secret_that_was_printed_stays_hidden() -> None:
    source = "password = 'hunter2-abc'\nprint(password)"
    verdict = compare_outputs(
        outputs_of_file(text("hunter2-abc\n")), outputs_of_file(text("other\n")), Tolerance(), source
    )
    assert "hunter2-abc" not in " ".join(verdict.details)


def test_results_and_prints_of_two_runs_are_compared(tmp_path: Path) -> None:
    found = reproduced(
        tmp_path, "print('a')\n1 + 1", "print(object())", others=["print('a')\n1 + 2", "print(object())"]
    )
    shown = [one.output for one in found.cells]
    assert [one.outcome for one in shown if one is not None] == ["different", "same"]
    assert found.counts[2] == "2 outputs: 1 same, 1 different"


def test_outputs_can_be_left_out(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "print('a')", others=["print('b')"], settings=Settings(outputs=False))
    assert cell(found, 1).output is None
    assert found.ok


def test_a_figure_is_the_same_figure(tmp_path: Path) -> None:
    code = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2, 3])\nplt.close(fig)\nfig"
    found = reproduced(tmp_path, code)
    assert {one.verdict.outcome for one in found.variables} == {"same"}
