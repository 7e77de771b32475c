"""What a person sees of a history, and how they get at more of it."""

from __future__ import annotations

import re

import pytest

from tests.e2e.browser import Locator, expect
from tests.e2e.conftest import Photograph
from tests.e2e.documents import Document, Panel
from tests.e2e.study import STUDY

CONVERT, FRAME, FAILED, NEWEST = "Cell 3", "Cell 2", "Cell 5", "Cell 8"


def test_a_panel_shows_every_cell_and_what_it_changed(panel: Panel, photograph: Photograph) -> None:
    expect(panel.count).to_have_text("8 commits")
    expect(panel.row("Today")).to_be_visible()
    expect(panel.row(NEWEST)).to_contain_text("rate = 0.95")
    expect(chips(panel.row(CONVERT))).to_have_text(["~df +1 column", "+rate", "+tmp"])
    expect(chips(panel.row("Cell 4"))).to_have_text([re.compile(r"^\+model \d+ B$"), "−tmp"])
    expect(panel.row(FAILED)).to_contain_text("ValueError: Input X contains NaN.")
    photograph("list", panel.root)


def test_a_row_says_in_words_what_it_shows_in_signs(panel: Panel) -> None:
    name = panel.row("Cell 4").get_attribute("aria-label") or ""
    assert re.fullmatch(r"Cell 4, del tmp, added model, removed tmp, [\d.]+ seconds, today \d\d:\d\d", name), name
    assert "failed" in (panel.row(FAILED).get_attribute("aria-label") or "")


def test_the_branch_stands_at_its_commit_and_the_toolbar_says_where_one_is(panel: Panel) -> None:
    label = panel.row(NEWEST).locator(".ak-ref")
    expect(label).to_have_text("main")
    expect(label).to_have_attribute("title", "HEAD, on branch main")
    expect(panel.button("Branch: main")).to_be_visible()
    expect(panel.button("[8]: where you are. Show it")).to_have_text("[8]")


def test_cells_that_changed_nothing_are_one_row_until_it_is_unfolded(panel: Panel) -> None:
    fold = panel.row("Cell 6–7")
    expect(fold).to_contain_text("2 cells that changed nothing")
    expect(fold).not_to_contain_text("match")
    expect(panel.row("Cell 7")).to_have_count(0)
    fold.get_by_role("button", name="Unfold 2 cells").click()
    expect(panel.row("Cell 7")).to_contain_text("len(df)")
    expect(panel.row("Cell 6")).to_contain_text("1 + 1")
    panel.row("Cell 6–7").get_by_role("button", name="Fold 2 cells").click()
    expect(panel.row("Cell 7")).to_have_count(0)


def test_a_click_on_a_row_opens_what_became_of_each_variable(panel: Panel, photograph: Photograph) -> None:
    panel.row(CONVERT).locator(".ak-msg").click()
    expect(panel.details.get_by_role("heading")).to_have_text("Convert to euros")
    expect(panel.tab("Changes")).to_have_text("Changes 3")
    expect(panel.details).to_contain_text("120 × 3→120 × 4")
    table = panel.details.get_by_role("table").first
    expect(table.get_by_role("columnheader", name="price_eur")).to_be_visible()
    photograph("details", panel.root)
    panel.button("Close details").click()
    expect(panel.details).to_have_count(0)


def test_details_open_by_keyboard_and_follow_the_row_that_one_moves_to(panel: Panel, photograph: Photograph) -> None:
    panel.go_to(CONVERT)
    photograph("focus", panel.root)
    panel.press("Enter")
    expect(panel.details.get_by_role("heading")).to_have_text("Convert to euros")
    panel.press("ArrowDown")
    expect(panel.details.get_by_role("heading")).to_have_text(re.compile("^df = "))
    expect(panel.list).to_be_focused()
    panel.press("Escape")
    expect(panel.details).to_have_count(0)


def test_the_tab_of_code_compares_a_cell_with_its_last_run(panel: Panel, photograph: Photograph) -> None:
    panel.row(CONVERT).locator(".ak-msg").click()
    panel.tab("Code").click()
    expect(panel.tab_panel).to_contain_text("rate = 0.92")
    photograph("code", panel.root)


def test_the_tab_of_outputs_shows_what_a_cell_showed_in_a_frame_without_scripts(
    panel: Panel, photograph: Photograph
) -> None:
    panel.row(FRAME).locator("code").click()
    panel.tab("Outputs").click()
    frame = panel.tab_panel.locator("iframe")
    expect(frame).to_be_visible()
    assert "allow-scripts" not in (frame.get_attribute("sandbox") or "")
    expect(frame.content_frame.get_by_role("table")).to_contain_text("Old Town")
    photograph("outputs", panel.root)
    panel.row(FAILED).locator("code").click()
    expect(panel.tab_panel).to_contain_text("ValueError")


def test_the_tab_of_the_environment_names_the_interpreter(panel: Panel, photograph: Photograph) -> None:
    panel.row(FRAME).locator("code").click()
    panel.tab("Env").click()
    expect(panel.tab_panel).to_contain_text(re.compile(r"python3\.\d+\.\d+"))
    photograph("environment", panel.root)


def test_two_commits_are_compared_by_marking_both(panel: Panel, photograph: Photograph) -> None:
    panel.go_to(FRAME)
    panel.press("d")
    expect(panel.row(FRAME)).to_contain_text("marked")
    panel.go_to(NEWEST)
    panel.press("d")
    expect(panel.comparison).to_have_attribute("aria-label", "Compare [2] with [8]")
    expect(panel.tab("Variables")).to_have_text("Variables 3")
    expect(panel.comparison).to_contain_text("2 variables are the same on both sides")
    photograph("compare", panel.root)
    panel.button("Swap sides").click()
    expect(panel.comparison).to_have_attribute("aria-label", "Compare [8] with [2]")
    panel.page.keyboard.press("Escape")
    expect(panel.row(NEWEST)).to_be_visible()
    expect(panel.list).to_be_focused()


def test_a_diff_that_is_asked_for_in_a_cell_opens_as_a_comparison(study: Document, photograph: Photograph) -> None:
    last = len(STUDY)
    study.write(last, "%agent diff HEAD~6 HEAD df")
    study.run(last)
    panel = study.panel(last)
    expect(panel.comparison).to_contain_text("120 × 4")
    expect(panel.tab_panel.get_by_role("columnheader", name="price_eur")).to_be_visible()
    photograph("diff", panel.root)
    study.write(last, "")


@pytest.mark.parametrize(
    ("query", "rows", "count"), [("var:df", [CONVERT, FRAME], "2 of 8"), ("is:error", [FAILED], "1 of 8")]
)
def test_a_search_leaves_the_commits_that_it_is_about(
    panel: Panel, photograph: Photograph, query: str, rows: list[str], count: str
) -> None:
    panel.search.fill(query)
    expect(panel.count).to_have_text(count)
    for row in rows:
        expect(panel.row(row)).to_be_visible()
    expect(panel.row(NEWEST)).to_have_count(0)
    photograph(f"search-{query.partition(':')[0]}", panel.root)
    panel.button("Clear search").click()
    expect(panel.count).to_have_text("8 commits")


def test_what_a_search_matched_is_marked_in_the_chips(panel: Panel) -> None:
    panel.search.fill("var:df")
    expect(panel.row(CONVERT).locator("mark")).to_have_text(["df"])


def test_a_search_without_a_match_says_so_and_offers_the_way_back(panel: Panel, photograph: Photograph) -> None:
    panel.row("Cell 6–7").get_by_role("button", name="Unfold 2 cells").click()
    expect(panel.row("Cell 7")).to_be_visible()
    panel.list.press("ArrowDown")
    expect(panel.root.locator(".ak-hints")).to_be_visible()
    panel.page.keyboard.press("/")
    box = panel.root.bounding_box()
    panel.search.fill("tag:nowhere")
    expect(panel.root).to_contain_text("No commit matches tag:nowhere.")
    expect(panel.count).to_have_text("0 of 8")
    now = panel.root.bounding_box()
    assert box is not None
    assert now is not None
    assert now["height"] == box["height"]
    photograph("no-match", panel.root)
    panel.root.locator(".ak-empty").get_by_role("button", name="Clear search").click()
    expect(panel.row(NEWEST)).to_be_visible()
    expect(panel.row("Cell 7")).to_be_visible()  # what was unfolded is
    now = panel.root.bounding_box()
    assert now is not None
    assert now["height"] == box["height"]
    panel.row("Cell 6–7").get_by_role("button", name="Fold 2 cells").click()


def test_filters_keep_the_errors_or_what_has_a_name(panel: Panel) -> None:
    panel.button("Errors").click()
    expect(panel.count).to_have_text("1 of 8")
    expect(panel.row(FAILED)).to_be_visible()
    panel.button("Named").click()
    expect(panel.row(NEWEST)).to_be_visible()
    expect(panel.row(FAILED)).to_have_count(0)


def test_the_keys_are_listed_where_one_asks(panel: Panel, photograph: Photograph) -> None:
    panel.press("?")
    expect(panel.question).to_have_accessible_name("Keys")
    photograph("keys", panel.page)
    panel.page.keyboard.press("Escape")
    expect(panel.question).to_have_count(0)
    expect(panel.list).to_be_focused()


def chips(row: Locator) -> Locator:
    return row.locator(".ak-chip")
