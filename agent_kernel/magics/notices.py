"""The lines that the extension prints by itself: few, one line each, and each thing once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from agent_kernel.repository import short
from agent_kernel.verbs.text import clean, plural, size_text

if TYPE_CHECKING:
    from agent_kernel.repository import Unsaved
    from agent_kernel.session import Report, Repository

__all__ = ["Notices"]

_MARK = "[agent]"
_AT_ONCE = 3  # lines of unsaved variables that one cell may tell


class Notices:
    """Prints notices beside the output of a cell."""

    def __init__(
        self, is_quiet: Callable[[], bool], aside: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._is_quiet = is_quiet
        self._aside = aside
        self._told: set[tuple[str, str, str]] = set()

    def say(self, *lines: str) -> None:
        if lines:
            with self._aside():
                for line in lines:
                    print(f"{_MARK} {clean(line)}")

    def warn(self, line: str) -> None:
        with self._aside():
            print(f"{_MARK} {clean(line)}", file=sys.stderr)

    def report(
        self,
        report: Report,
        beside: Callable[[Report, Sequence[Unsaved]], bool] = lambda _report, _news: False,
        repo: Repository | None = None,
    ) -> None:
        """Tell what a cell's commit could not save, and, unless quiet, what it holds.

        Args:
            repo: that has what was committed.
            beside: may say beside the cell what the commit holds, and the news; whether it did.
        """
        news = [one for one in report.unsaved if (one.name, one.type, one.reason) not in self._told]
        self.was_told(news)
        if beside(report, news):
            news = []
        elif not self._is_quiet() and report.commit is not None:
            from agent_kernel.verbs.describe import chip_line

            chips = chip_line((change.how, change.name, 0) for change in report.changed)
            self.say(f"{short(report.commit)} {chips or 'no change'}, {size_text(report.written_bytes)}")
        left = 0
        if news:
            from agent_kernel.verbs.describe import holders_among, unsaved_groups, unsaved_line, unsaved_names

            groups = unsaved_groups(news)
            tree = None if report.record is None else report.record.tree
            holders = frozenset[str]() if repo is None else holders_among(repo, tree, news)
            self.say(*(unsaved_line(*alike, holders=holders) for alike in groups[:_AT_ONCE]))
            left = len(unsaved_names(one for alike in groups[_AT_ONCE:] for one in alike))
        self.say(*report.notes)
        if left:
            named = "is not saved; %agent status names it" if left == 1 else "are not saved; %agent status names them"
            self.say(f"{plural(left, 'more variable')} {named}")

    def was_told(self, unsaved: Iterable[Unsaved]) -> None:
        """Somebody told of these: no cell tells of them again."""
        self._told |= {(one.name, one.type, one.reason) for one in unsaved}
