"""Values whose manifests do not lie inside the tree: groups, and values of many parts."""

from __future__ import annotations

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed


class TestLargeManifests:
    """Values whose manifests do not lie inside the tree: groups, and values of many parts."""

    MADE = (
        "rows = [{'id': n} for n in range(3000)]\nsame = {'rows': rows}\nbig = {str(n): 'x' * 50 for n in range(3000)}"
    )

    def test_a_restarted_kernel_commits_them(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(self.MADE)
        with Notebook(Repository.open(store)) as nb:
            report = nb.run(self.MADE + "\nother = rows[5]")
            assert report.record is not None
            assert "restart" in report.record.labels
            assert "other" in names_changed(report)

    def test_they_are_merged_key_by_key(self) -> None:
        with Notebook() as nb:
            nb.run(self.MADE)
            nb.session.switch("side", create=True)
            nb.run("big['1'] = 'theirs'")
            nb.session.switch("main")
            nb.run("big['2'] = 'ours'")
            nb.session.merge("side")
            assert nb.look("(big['1'], big['2'], len(big))") == ("theirs", "ours", 3000)

    def test_one_of_a_group_is_taken_from_a_commit(self) -> None:
        with Notebook() as nb:
            old = nb.run(self.MADE)
            nb.run("rows.append(1)\nbig['1'] = 'new'\nsame['more'] = [rows]")
            nb.checkout(old, names=["big"])
            assert nb.look("(big['1'], len(rows), same['rows'] is rows)") == ("x" * 50, 3001, True)
            nb.checkout(old, names=["same"])
            assert nb.look("(same['rows'] is rows, len(rows), 'more' in same)") == (True, 3000, False)
