"""`notebook`: the history as a notebook file, with what its cells showed."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator

import pytest

from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import TaskStart
from agent_kernel.cells import history_notebook
from agent_kernel.repository import Blob, Output, Representation
from agent_kernel.session import Repository
from agent_kernel.session.tracking import HideList
from tests.cells.histories import Notebook, metadata, read, shown, text_face


@pytest.fixture
def nb() -> Iterator[Notebook]:
    with Notebook() as notebook:
        yield notebook


def markdown(nb: Notebook) -> list[str]:
    return [cell["source"] for cell in nb.document()["cells"] if cell["cell_type"] == "markdown"]


class TestLine:
    def test_cells_stand_in_the_order_in_which_they_ran(self, nb: Notebook) -> None:
        made = nb.cells("x = 1", "y = 2")
        document = nb.document()
        assert [cell["source"] for cell in document["cells"]] == ["x = 1", "y = 2"]
        assert [cell["execution_count"] for cell in document["cells"]] == [1, 2]
        assert [cell["id"] for cell in document["cells"]] == ["cell-1", "cell-2"]
        assert [metadata(cell)["commit"][:8] for cell in document["cells"]] == [
            one.commit.hex()[:8] for one in made if one.commit
        ]

    def test_the_same_commit_gives_the_same_bytes(self, nb: Notebook) -> None:
        nb.cells("x = {1, 2, 3}", "y = {'b': 1, 'a': 2}")
        assert nb.written().content == nb.written().content

    def test_what_was_rolled_back_is_left_out(self, nb: Notebook) -> None:
        first, *_ = nb.cells("x = 1", "x = 2", "x = 3")
        nb.rollback(first)
        nb.cells("y = x")
        assert nb.code() == ["x = 1", "y = x"]

    def test_undo_takes_a_cell_out_and_redo_brings_it_back(self, nb: Notebook) -> None:
        nb.cells("x = 1", "x = 2")
        nb.session.undo()
        assert nb.code() == ["x = 1"]
        nb.session.redo()
        assert nb.code() == ["x = 1", "x = 2"]

    def test_undo_of_everything_leaves_nothing(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.undo()
        assert nb.document()["cells"] == []

    def test_a_checkout_goes_on_from_where_it_went(self, nb: Notebook) -> None:
        first, *_ = nb.cells("x = 1", "x = 2")
        nb.checkout(first)
        nb.cells("y = x")
        assert nb.code() == ["x = 1", "y = x"]

    def test_variables_taken_from_elsewhere_are_told(self, nb: Notebook) -> None:
        first, *_ = nb.cells("x = 1", "x = 2", "y = 3")
        nb.checkout(first, names=["x"])
        assert nb.code() == ["x = 1", "x = 2", "y = 3"]
        assert markdown(nb)[0].startswith("*Here `x` became what they were at")

    def test_a_merge_tells_what_was_merged_and_has_its_cells(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.switch("other", create=True)
        nb.cells("z = 2")
        nb.session.switch("main")
        nb.cells("y = 3")
        nb.session.merge("other")
        nb.cells("w = y + z")
        kinds = [(cell["cell_type"], cell["source"].partition(":")[0]) for cell in nb.document()["cells"]]
        assert [kind if kind == "markdown" else source for kind, source in kinds] == [
            "x = 1", "y = 3", "markdown", "z = 2", "markdown", "w = y + z",
        ]  # fmt: skip
        assert markdown(nb)[0].startswith("## Merged: ")
        assert "It changed `z` here." in markdown(nb)[0]

    def test_a_picked_commit_has_its_cell(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.switch("other", create=True)
        nb.cells("w = 0", "z = 2")
        nb.session.switch("main")
        nb.cells("y = 3")
        nb.session.cherry_pick("other")
        assert nb.code() == ["x = 1", "y = 3", "z = 2"]

    def test_a_restart_makes_no_difference(self) -> None:
        with Notebook(session_id="kernel.one") as first:
            first.cells("x = 1", "y = 2")
            with Notebook(first.repo, session_id="kernel.two") as again:
                again.checkout()
                again.cells("z = x + y")
                document = again.document()
        assert [cell["source"] for cell in document["cells"]] == ["x = 1", "y = 2", "z = x + y"]
        assert [cell["execution_count"] for cell in document["cells"]] == [1, 2, 3]
        assert [metadata(cell)["number"] for cell in document["cells"]] == [1, 2, 1]

    def test_a_cell_run_twice_is_there_twice_with_ids_of_its_own(self, nb: Notebook) -> None:
        nb.cell("n = 1", id="first")
        nb.cell("n += 1", id="same")
        nb.cell("n += 1", id="same")
        ids = [cell["id"] for cell in nb.document()["cells"]]
        assert ids[0] == "first"
        assert "same" not in ids

    def test_ids_that_are_none_are_replaced(self, nb: Notebook) -> None:
        nb.cell("x = 1", id="vscode-notebook-cell:/home/me/a.ipynb#W0sZmlsZQ==")
        nb.cell("x = 2", id="é" * 70)
        assert all(len(cell["id"]) == 12 for cell in nb.document()["cells"])

    def test_failed_cells_are_kept_where_they_are_asked_for(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.run("x = 2\n1 / 0", fails=ZeroDivisionError)
        nb.cell("x = 3", raises=KeyboardInterrupt())
        nb.cells("y = x")
        assert nb.code() == ["x = 1", "y = x"]
        assert nb.written().failed == (2, 2)
        document = nb.document(keep_failed=True)
        assert [metadata(cell).get("status") for cell in document["cells"]] == [None, "failed", "interrupted", None]

    def test_a_history_whose_beginning_is_gone_says_so(self, nb: Notebook) -> None:
        first, *_ = nb.cells("x = 1", "x = 2", "x = 3")
        assert first.commit is not None
        nb.repo.store.delete_many([b"c" + first.commit])
        made = history_notebook(Repository.open(nb.repo.store), nb.head)
        assert made.is_truncated
        sources = [cell["source"] for cell in read(made.content)["cells"]]
        assert sources == ["*The store no longer holds what came before this.*", "x = 2", "x = 3"]

    def test_a_rollback_to_what_is_gone_begins_anew(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.switch("other", create=True)
        made = nb.cells("x = 2")[0].commit
        nb.session.switch("main")
        nb.cells("y = 1")
        nb.rollback("other")
        nb.cells("z = x")
        assert made is not None
        nb.repo.store.delete_many([b"c" + made])
        found = history_notebook(Repository.open(nb.repo.store), nb.head)
        assert found.is_truncated
        assert [cell["source"] for cell in read(found.content)["cells"]][1:] == ["z = x"]


class TestOwnLines:
    def test_lines_about_the_history_are_left_out(self, nb: Notebook) -> None:
        nb.cells("%load_ext agent_kernel\nx = 1", "%agent status\n%agent log\ny = 2\n%matplotlib inline")
        assert nb.code() == ["x = 1", "y = 2\n%matplotlib inline"]

    def test_such_lines_within_a_text_stay(self, nb: Notebook) -> None:
        nb.run("t = '''\n%agent status\n'''")
        assert nb.code() == ["t = '''\n%agent status\n'''"]

    def test_the_header_of_code_goes(self, nb: Notebook) -> None:
        nb.cells("%%agent bob\nx = 1")
        assert nb.code() == ["x = 1"]

    def test_a_task_is_told_before_the_steps_that_it_led_to(self, nb: Notebook) -> None:
        task = "sum the rows\nand | keep them"
        start = TaskStart(run="20260101T000000-abcde", seq=0, time_ns=1, agent="ada", task=task)
        EventStore(nb.repo.store).append(start)
        nb.session.begin_cell(f"%%agent\n{task}", cell_id="c1", number=1)
        nb.step("x = 1", start.run, 1, id="c1")
        nb.step("y = x + 1", start.run, 2, id="c1")
        nb.session.end_cell()
        cells = nb.document()["cells"]
        assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code"]
        assert cells[0]["source"].endswith("> sum the rows\n> and | keep them")
        assert cells[0]["source"].startswith("**Task for ada** (run ")
        told = metadata(cells[2])
        assert (told["author"], told["run"], told["step"]) == ({"name": "ada", "kind": "agent"}, start.run, 2)

    def test_a_task_that_led_to_no_step_is_told(self, nb: Notebook) -> None:
        nb.session.begin_cell("%%agent ada\nplot the prices by month, please", number=1)
        nb.session.end_cell()
        (cell,) = nb.document()["cells"]
        assert cell["source"].endswith("> plot the prices by month, please")


class TestTextsOfTheDocument:
    def test_they_stand_where_they_stood(self, nb: Notebook) -> None:
        nb.page(
            ("m1", "markdown", "# Title"), ("cell-1", "code", "x = 1"), ("m2", "markdown", "## Then"),
            ("r", "raw", "raw text"), ("cell-2", "code", "y = 2"), ("m3", "markdown", "The end."),
        )  # fmt: skip
        nb.cells("x = 1", "y = 2")
        cells = nb.document()["cells"]
        assert [cell["source"] for cell in cells] == ["# Title", "x = 1", "## Then", "raw text", "y = 2", "The end."]
        assert [cell["id"] for cell in cells] == ["m1", "cell-1", "m2", "r", "cell-2", "m3"]
        assert cells[3]["cell_type"] == "raw"

    def test_an_emptied_document_is_not_the_last_one(self, nb: Notebook) -> None:
        nb.page(("m1", "markdown", "# Title"), ("cell-1", "code", "x = 1"))
        nb.cells("x = 1")
        nb.page()
        nb.cells("y = 2")
        nb.page(("new", "code", ""))
        nb.cells("z = 3")
        assert [cell["source"] for cell in nb.document()["cells"]] == ["# Title", "x = 1", "y = 2", "z = 3"]

    def test_without_ids_the_code_tells_where(self, nb: Notebook) -> None:
        nb.page(("", "markdown", "One"), ("", "code", "x = 1"), ("", "markdown", "Two"), ("", "code", "y = 2"))
        nb.cell("x = 1", id="zz")
        nb.cell("y = 2", id="yy")
        assert [cell["source"] for cell in nb.document()["cells"]] == ["One", "x = 1", "Two", "y = 2"]

    def test_cells_that_ran_in_another_order_keep_their_texts(self, nb: Notebook) -> None:
        nb.page(("a", "markdown", "A"), ("c1", "code", "x = 1"), ("b", "markdown", "B"), ("c2", "code", "y = 2"))
        nb.cell("y = 2", id="c2")
        nb.cell("x = 1", id="c1")
        assert [cell["source"] for cell in nb.document()["cells"]] == ["B", "y = 2", "A", "x = 1"]

    def test_text_alone_is_a_notebook_too(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.page(("a", "markdown", "A"), ("c", "code", "never ran"))
        nb.session.commit("a note")
        nb.session.undo()
        assert nb.document()["nbformat"] == 4


class TestOutputs:
    def show(self, nb: Notebook, *outputs: Output) -> list[object]:
        nb.cell("x = 1", shows=shown(*outputs))
        return nb.outputs()

    def test_streams_results_and_errors(self, nb: Notebook) -> None:
        out, err, result, error = self.show(
            nb,
            Output(kind="stream", name="stdout", text="a\nb\n"),
            Output(kind="stream", name="stderr", text="\x1b[31mred\x1b[0m"),
            Output(
                kind="execute_result", representations=(text_face("42"), text_face("<b>42</b>", "text/html")), number=7
            ),
            Output(kind="error", name="ValueError", text="no", traceback=("one", "two")),
        )
        assert out == {"output_type": "stream", "name": "stdout", "text": "a\nb\n"}
        assert err == {"output_type": "stream", "name": "stderr", "text": "\x1b[31mred\x1b[0m"}
        assert result == {
            "output_type": "execute_result",
            "data": {"text/plain": "42", "text/html": "<b>42</b>"},
            "metadata": {},
            "execution_count": 1,
        }
        assert error == {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["one", "two"]}

    def test_pictures_are_base64_and_drawings_are_text(self, nb: Notebook) -> None:
        png, svg = b"\x89PNG" + bytes(300_000), "<svg>" + "x" * 9000 + "</svg>"
        (output,) = self.show(
            nb,
            Output(
                kind="display_data",
                representations=(
                    Representation("image/png", "bytes", len(png), blob=Blob(len(png), inline=png)),
                    Representation("image/svg+xml", "text", len(svg), blob=Blob(len(svg), inline=svg.encode())),
                ),
                metadata='{"image/png":{"width":10}}',
            ),
        )
        assert output["data"]["image/png"].strip() == b64encode(png).decode()  # type: ignore[index]
        assert output["data"]["image/svg+xml"] == svg  # type: ignore[index]
        assert output["metadata"] == {"image/png": {"width": 10}}  # type: ignore[index]

    def test_what_was_too_long_is_said(self, nb: Notebook) -> None:
        gap, left_out = self.show(
            nb,
            Output(kind="gap", size=5_000_000),
            Output(kind="display_data", representations=(Representation("text/html", "text", 9_000_000),)),
        )
        assert gap["text"] == "… 5 MB left out …\n"  # type: ignore[index]
        assert left_out["data"] == {"text/plain": "(text/html 9 MB left out)"}  # type: ignore[index]

    def test_widgets_are_told_in_words(self, nb: Notebook) -> None:
        view = text_face('{"model_id":"1","version_major":2}', "application/vnd.jupyter.widget-view+json", "json")
        words, nothing, within = self.show(
            nb,
            Output(kind="display_data", representations=(view, text_face("IntSlider(value=3)"))),
            Output(kind="display_data", representations=(view,)),
            Output(kind="stream", name="stdout", text="in a widget", widget="model"),
        )
        assert words["data"] == {"text/plain": "IntSlider(value=3)"}  # type: ignore[index]
        assert nothing["data"] == {"text/plain": "(a widget left out)"}  # type: ignore[index]
        assert within["text"] == "in a widget"  # type: ignore[index]

    def test_an_update_replaces_what_an_earlier_cell_showed(self, nb: Notebook) -> None:
        nb.cell("x = 1", shows=shown(Output(kind="display_data", display="d", representations=(text_face("0 %"),))))
        nb.cell(
            "x = 2", shows=shown(Output(kind="update_display_data", display="d", representations=(text_face("100 %"),)))
        )
        assert nb.outputs(0)[0]["data"] == {"text/plain": "100 %"}
        assert nb.outputs(1) == []

    def test_a_late_output_stands_under_its_cell(self, nb: Notebook) -> None:
        nb.cell("x = 1")
        nb.cell("x = 2", shows=shown(Output(kind="stream", name="stdout", text="late", under=1)))
        nb.cell("x = 3", shows=shown(Output(kind="stream", name="stdout", text="later", under=99)))
        assert [len(nb.outputs(at)) for at in range(3)] == [1, 0, 1]

    def test_json_stays_json_where_the_format_has_it(self, nb: Notebook) -> None:
        (output,) = self.show(
            nb,
            Output(
                kind="display_data",
                representations=(
                    text_face('{"a":[1,NaN]}', "application/json", "json"),
                    text_face('["x",1]', "text/odd", "json"),
                    text_face("not json", "application/vnd.plotly.v1+json", "json"),
                    text_face('"\\ud800"', "application/geo+json", "json"),
                ),
            ),
        )
        assert output["data"] == {  # type: ignore[index]
            "application/json": {"a": [1, "NaN"]},
            "text/odd": '["x", 1]',
            "application/geo+json": "\ud800",
        }

    def test_our_own_displays_are_left_out(self, nb: Notebook) -> None:
        ours = text_face("{}", "application/vnd.agent-kernel.history.v1+json", "json")
        assert self.show(nb, Output(kind="display_data", representations=(ours,))) == []

    def test_damaged_outputs_are_left_out(self, nb: Notebook) -> None:
        nb.cell("x = 1", shows=shown(Output(kind="stream", name="stdout", text="a" * 50)))
        cell = nb.repo.commit_at(nb.head).cell
        assert cell is not None
        assert cell.outputs is not None
        nb.repo.store.delete_many([b"o" + cell.outputs])
        assert nb.code() == ["x = 1"]


class TestSecrets:
    def test_secrets_are_masked_in_code_and_outputs(self, nb: Notebook) -> None:
        nb.cell("api_key = 'abcd-1234-efgh'", shows=shown(Output(kind="stream", text="abcd-1234-efgh!\n")))
        nb.cell("y = 1", shows=shown(Output(kind="execute_result", representations=(text_face("'abcd-1234-efgh'"),))))
        assert b"abcd-1234-efgh" not in nb.written().content
        assert nb.written().masked == 1

    def test_literals_of_hidden_variables_are_masked(self, nb: Notebook) -> None:
        HideList(nb.repo).add("client_*")
        nb.cell("client_name = 'Muster GmbH 7'", shows=shown(Output(kind="stream", text="Muster GmbH 7\n")))
        assert b"Muster" not in nb.written().content


def test_nothing_is_unpickled_and_no_code_runs(nb: Notebook) -> None:
    nb.cells("class Bomb:\n    def __reduce__(self):\n        return (print, ('boom',))", "b = [1]")
    document = read(nb.written().content)
    assert len(document["cells"]) == 2
    assert json.loads(nb.written().content)["metadata"]["kernelspec"]["name"] == "python3"
