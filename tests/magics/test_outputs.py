"""What cells show is kept with their commits: bounded, and as a terminal would show it."""

from __future__ import annotations

import threading

import pytest

from agent_kernel.magics.outputs import ROOM, Collector, Line, OutputTarget
from tests.magics.collected import kept, texts


class TestOvertyping:
    @pytest.mark.parametrize(
        ("printed", "shown"),
        [
            ("a\nb\n", "a\nb\n"),
            ("10 %\r20 %\r100 %\n", "100 %\n"),
            ("longer\rshort\n", "shortr\n"),
            ("longer\r\x1b[Kshort\n", "short\n"),
            ("longer\x1b[2Kx\n", "x\n"),
            ("windows\r\nline\r\n", "windows\nline\n"),
            ("abc\b\bX\n", "aXc\n"),
            ("\x1b[31mred bar\x1b[0m\r\x1b[32mgo\x1b[0m", "\x1b[32mgo\x1b[0m"),
        ],
    )
    def test_a_line_is_what_was_typed_last(self, printed: str, shown: str) -> None:
        line = Line()
        assert line.type(printed) + line.take() == shown
        # however the text arrives
        assert "".join(line.type(one) for one in printed if "\x1b" not in printed) + line.take() in (shown, "")

    def test_ten_thousand_lines_of_a_progress_bar_are_one(self) -> None:
        collector = Collector()
        for done in range(10_000):
            collector.text("stderr", f"\r{done:5} of 10000 [{'#' * (done // 500)}]")
        assert texts(kept(collector)) == [f" 9999 of 10000 [{'#' * 19}]"]


class TestCollecting:
    def test_what_is_printed_on_one_stream_is_one_output(self) -> None:
        collector = Collector()
        for word in ("a", "b\n", "c"):
            collector.text("stdout", word)
        collector.text("stderr", "oh")
        collector.text("stdout", "d")
        found = kept(collector).outputs
        assert [(one.name, one.text) for one in found] == [("stdout", "ab\nc"), ("stderr", "oh"), ("stdout", "d")]
        assert collector.take() is None

    @pytest.mark.parametrize("letter", ["x", "é", "😀"])
    def test_the_beginning_and_the_end_of_much_text_stay_and_the_rest_is_counted(self, letter: str) -> None:
        collector = Collector()
        total = 0
        for number in range(3_000):
            said = f"{number} {letter * 200}\n"
            total += len(said.encode())
            collector.text("stdout", said)
        outputs = kept(collector)
        first, gap, last = outputs.outputs
        assert first.text.startswith("0 ")
        assert last.text.endswith(f"2999 {letter * 200}\n")
        assert gap.kind == "gap"
        size = len(first.text.encode()) + len(last.text.encode())
        assert ROOM * 0.9 < size <= ROOM
        assert gap.size == outputs.dropped_bytes == total - size

    def test_one_text_of_any_size_takes_no_more_room(self) -> None:
        collector = Collector()
        collector.text("stdout", "begin " + "x" * 50_000_000 + " end")
        first, gap, last = kept(collector).outputs
        assert first.text.startswith("begin x")
        assert last.text.endswith("x end")
        assert len(first.text) + len(last.text) + gap.size == 50_000_010

    def test_much_text_between_other_outputs_is_bounded_too(self) -> None:
        collector = Collector()
        for number in range(5_000):
            collector.text("stdout", "x" * 100)
            collector.show("display_data", {"text/plain": str(number)})
        outputs = kept(collector)
        sizes = [len(one.text) + sum(face.size for face in one.representations) for one in outputs.outputs]
        assert sum(sizes) < ROOM
        assert outputs.dropped_outputs == 10_000 - len(outputs.outputs) + 1

    def test_a_table_too_large_to_keep_leaves_its_text_behind(self) -> None:
        collector = Collector()
        collector.show("execute_result", {"text/plain": "small", "text/html": "x" * (ROOM + 1)})
        outputs = kept(collector)
        plain, html = outputs.outputs[0].representations
        assert plain.text == "small"
        assert (html.is_kept, html.size) == (False, ROOM + 1)
        assert outputs.dropped_bytes == ROOM + 1

    def test_pictures_have_room_of_their_own(self) -> None:
        collector = Collector()
        for _ in range(100):
            collector.show("display_data", {"image/png": "QUJD" * 250_000, "text/plain": "figure"})
        outputs = kept(collector)
        pictures = [one for one in outputs.outputs if one.representations]
        assert 10 <= len(pictures) <= 16
        assert pictures[0].representations[0].size == 750_000
        assert outputs.dropped_outputs == 100 - len(pictures)

    def test_a_display_id_has_one_state(self) -> None:
        collector = Collector()
        collector.show("display_data", {"text/plain": "0 %"}, display="bar")
        collector.text("stdout", "working\n")
        for done in range(1, 101):
            collector.show("update_display_data", {"text/plain": f"{done} %"}, display="bar")
        bar, said = kept(collector).outputs
        assert (bar.kind, bar.representations[0].text, said.text) == ("display_data", "100 %", "working\n")

    def test_the_display_of_an_earlier_cell_has_one_update(self) -> None:
        collector = Collector()
        for done in range(100):
            collector.show("update_display_data", {"text/plain": f"{done} %"}, display="bar")
        (update,) = kept(collector).outputs
        assert (update.kind, update.display, update.representations[0].text) == ("update_display_data", "bar", "99 %")

    def test_updates_that_grow_stay_bounded(self) -> None:
        collector = Collector()
        for number in range(50):
            collector.show("display_data", {"text/plain": "-"}, display=str(number))
        for number in range(50):
            collector.show("update_display_data", {"text/plain": "x" * 100_000}, display=str(number))
        assert sum(face.size for one in kept(collector).outputs for face in one.representations) <= ROOM

    def test_clearing_takes_away_what_was_shown_at_that_place(self) -> None:
        collector = Collector()
        collector.text("stdout", "gone")
        collector.text("stdout", "stays", OutputTarget("widget"))
        collector.clear(wait=False)
        collector.text("stdout", "new")
        assert texts(kept(collector)) == ["stays", "new"]

    def test_clearing_may_wait_for_the_next_output(self) -> None:
        collector = Collector()
        collector.text("stdout", "frame 1")
        collector.clear(wait=True)
        assert texts(kept(collector)) == ["frame 1"]
        for frame in range(1_000):
            collector.clear(wait=True)
            collector.text("stdout", f"frame {frame}")
        assert texts(kept(collector)) == ["frame 999"]

    def test_a_traceback_of_megabytes_keeps_its_end(self) -> None:
        collector = Collector()
        collector.error("E", "m" * 10_000_000, ["first", *(["frame " * 1_000] * 1_000), "E: the end"])
        (error,) = kept(collector).outputs
        assert error.traceback[-1] == "E: the end"
        assert sum(map(len, error.traceback)) + len(error.text) < ROOM

    def test_what_no_protocol_allows_is_left_out(self) -> None:
        collector = Collector()
        cycle: list[object] = []
        cycle.append(cycle)
        data: dict[str, object] = {
            "application/json": cycle,
            "x/y": object(),
            "image/png": "no base64!",
            "text/plain": "ok",
        }
        collector.show("display_data", data)
        collector.text("stdout", "half a pair: \ud83d")
        shown, said = kept(collector).outputs
        assert {face.mime for face in shown.representations} == {"image/png", "text/plain"}
        assert said.text == "half a pair: \\ud83d"

    def test_threads_may_print_at_once(self) -> None:
        collector = Collector()

        def talk(name: str) -> None:
            for number in range(500):
                collector.text(name, f"{number}\n")
                collector.show("update_display_data", {"text/plain": name}, display=name)

        threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = [line for one in kept(collector).outputs for line in one.text.splitlines()]
        assert sorted(lines) == sorted(str(number) for number in range(500) for _ in "abcd")
