"""Walks and merge bases, with real git as the judge."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from agent_kernel.errors import RefNotFoundError
from agent_kernel.repository.commits import ObjectId
from agent_kernel.repository.repository import Repository
from tests.support.repositories import add_commit, commit_values, detach, switch

Dag = list[list[int]]  # the parents of each commit, by number


def _random_dag(rng: random.Random, size: int) -> Dag:
    return [
        sorted(rng.sample(range(max(0, number - 6), number), min(number, rng.choice([0, 1, 1, 1, 2, 2, 3]))))
        for number in range(size)
    ]


def _ours(repo: Repository, dag: Dag) -> list[ObjectId]:
    ids: list[ObjectId] = []
    for number, parents in enumerate(dag):
        ids.append(add_commit(repo, [ids[parent] for parent in parents], 1000 + number))
    return ids


class Git:
    """The same history in a real git repository."""

    def __init__(self, folder: Path, dag: Dag) -> None:
        self.folder = folder
        self.run("init", "--bare", "--quiet", ".")
        script = []
        for number, parents in enumerate(dag):
            script += [
                f"commit refs/heads/c{number}",
                f"mark :{number + 1}",
                f"committer A <a@b> {1_000_000 + number} +0000",
                "data 0",
                *(f"{'merge' if place else 'from'} :{parent + 1}" for place, parent in enumerate(parents)),
                "",
            ]
        self.run("fast-import", "--quiet", "--export-marks=marks", stdin="\n".join(script))
        marks = (folder / "marks").read_text().split("\n")
        self.number = {line.split()[1]: int(line.split()[0][1:]) - 1 for line in marks if line}

    def run(self, *arguments: str, stdin: str = "") -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout.split()

    def numbers(self, *arguments: str) -> list[int]:
        return [self.number[line] for line in self.run(*arguments)]


@pytest.mark.parametrize("seed", range(8))
def test_git_agrees_on_merge_bases_ancestors_and_order(repo: Repository, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    dag = _random_dag(rng, 24)
    git, ids = Git(tmp_path, dag), _ours(repo, dag)
    number_of = {id: number for number, id in enumerate(ids)}
    for _ in range(12):
        a, b = rng.randrange(24), rng.randrange(24)
        bases = [number_of[id] for id in repo.merge_bases(ids[a], ids[b])]
        assert sorted(bases) == sorted(git.numbers("merge-base", "--all", f"c{a}", f"c{b}"))
        best = repo.merge_base(ids[a], ids[b])
        assert (best is None) == (not bases)
        assert best is None or number_of[best] == bases[0] == max(bases)
    tip = 23
    assert [number_of[id] for id, _ in repo.log(ids[tip])] == git.numbers("rev-list", "--date-order", f"c{tip}")
    first = git.numbers("rev-list", "--first-parent", f"c{tip}")
    assert [number_of[id] for id, _ in repo.log(ids[tip], first_parent=True)] == first
    for a in range(0, 24, 5):
        older = set(git.numbers("rev-list", f"c{a}"))
        assert {n for n in range(24) if repo.is_ancestor(ids[n], ids[a])} == older
        lost = [number_of[id] for id in repo.history.missing_from(ids[tip], [ids[a]])]
        assert sorted(lost) == sorted(git.numbers("rev-list", f"c{tip}", f"^c{a}"))


def _reached(dag: Dag, number: int) -> set[int]:
    found = {number}
    for parent in dag[number]:
        found |= _reached(dag, parent)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_merge_bases_are_the_common_ancestors_that_no_other_reaches(repo: Repository, seed: int) -> None:
    rng = random.Random(1000 + seed)
    dag = _random_dag(rng, 14)
    ids = _ours(repo, dag)
    for a in range(14):
        for b in range(a):
            common = _reached(dag, a) & _reached(dag, b)
            best = {n for n in common if not any(n != m and n in _reached(dag, m) for m in common)}
            assert {ids.index(id) for id in repo.merge_bases(ids[a], ids[b])} == best


def test_a_child_is_younger_than_its_parents_even_if_the_clock_went_back(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"}, time_ns=5000)
    second = commit_values(repo, {"a": "2"}, time_ns=10)
    assert repo.commit_at(second).time_ns > repo.commit_at(first).time_ns
    assert [id for id, _ in repo.log(second)] == [second, first]


def test_a_log_stops_at_its_limit_without_reading_the_rest(repo: Repository) -> None:
    for number in range(20):
        commit_values(repo, {"a": str(number)})
    tip = repo.head("s").commit
    assert tip is not None
    repo.objects.forget_cached()
    assert len(list(repo.log(tip, limit=3))) == 3
    assert len(repo.objects._young) <= 5


def test_the_log_of_a_name_shows_only_what_changed_it(repo: Repository) -> None:
    made = commit_values(repo, {"a": "1", "b": "1"})
    commit_values(repo, {"b": "2"})
    changed = commit_values(repo, {"a": "2"})
    gone = commit_values(repo, {"a": None})
    tip = commit_values(repo, {"b": "3"})
    assert [id for id, _ in repo.log_of_name(tip, "a")] == [gone, changed, made]
    assert list(repo.log_of_name(tip, "never")) == []


def test_a_merge_that_took_a_name_from_one_side_leads_to_that_side(repo: Repository) -> None:
    base = commit_values(repo, {"a": "1"})
    repo.create_branch("side", base)
    ours = commit_values(repo, {"b": "1"})
    switch(repo, "side")
    theirs = commit_values(repo, {"a": "2"})
    switch(repo, "main")
    merge = commit_values(repo, {"a": "2"}, parents=[ours, theirs])
    assert [id for id, _ in repo.log_of_name(merge, "a")] == [theirs, base]


def test_a_diff_names_what_differs_and_hides_what_the_session_keeps(repo: Repository) -> None:
    old = commit_values(repo, {"a": "1", "b": "1", "\0class:C": "x"})
    new = commit_values(repo, {"a": "2", "b": None, "c": "3", "\0class:C": "y"})
    assert [(d.name, d.old is None, d.new is None) for d in repo.diff(old, new)] == [
        ("a", False, False),
        ("b", False, True),
        ("c", True, False),
    ]
    assert len(repo.diff(old, new, all=True)) == 4
    assert [d.name for d in repo.diff(None, old)] == ["a", "b"]
    assert repo.diff(new, new) == []


def test_a_detached_head_commits_beside_its_branch(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    second = commit_values(repo, {"a": "2"})
    detach(repo, first)
    third = commit_values(repo, {"a": "3"}, branch="main-2")
    assert repo.branches() == {"main": second, "main-2": third}
    assert repo.head("s").branch == "main-2"
    assert repo.merge_base(second, third) == first


def test_revisions_are_named_in_text_and_head_is_meant_where_none_is(repo: Repository) -> None:
    first = commit_values(repo, {"a": "1"})
    second = commit_values(repo, {"a": "2"})
    assert [id for id, _ in repo.log()] == [second, first]
    assert [id for id, _ in repo.log("HEAD~1")] == [first]
    assert repo.show("main~1") == repo.show(first) == repo.commit_at(first)
    assert repo.show() == repo.commit_at(second)
    assert [found.name for found in repo.diff("HEAD~1", "main")] == ["a"]
    assert repo.diff("HEAD~1") == repo.diff(first, second)
    repo.create_branch("side", at="HEAD~1")
    repo.create_tag("v1")
    assert (repo.branches()["side"], repo.tags()["v1"]) == (first, second)


@pytest.mark.parametrize("ask", ["log", "show", "diff", "create_branch", "create_tag"])
def test_a_revision_that_is_not_there_is_an_error_at_once(repo: Repository, ask: str) -> None:
    arguments = ("new", "nowhere") if ask.startswith("create") else ("nowhere",)
    with pytest.raises(RefNotFoundError, match="nowhere"):
        getattr(repo, ask)(*arguments)
