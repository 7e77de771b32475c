"""git's revision syntax, with real git as the judge."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent_kernel.errors import AmbiguousRefError, RefNotFoundError
from agent_kernel.repository.commits import ALGORITHM, Kind, ObjectId, hex_of, short
from agent_kernel.repository.repository import Repository, split_path
from tests.repository.test_history import Git, _ours, _random_dag
from tests.support.notebooks import Notebook
from tests.support.repositories import commit_values, detach, switch


@pytest.mark.parametrize("seed", range(4))
def test_git_agrees_on_ancestors(repo: Repository, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    dag = _random_dag(rng, 20)
    git, ids = Git(tmp_path, dag), _ours(repo, dag)
    for number, id in enumerate(ids):
        repo.create_branch(f"c{number}", id)
    for _ in range(60):
        steps = [
            rng.choice(["~", "^", "~1", "~2", "^1", "^2", "^3", "^0", "~0", "^^"]) for _ in range(rng.randrange(4))
        ]
        text = f"c{rng.randrange(20)}" + "".join(steps)
        known = git.run("rev-parse", "--quiet", "--verify", text)
        if known:
            assert repo.resolve(text) == ids[git.number[known[0]]], text
        else:
            with pytest.raises(RefNotFoundError):
                repo.resolve(text)


@pytest.fixture
def line(repo: Repository) -> list[ObjectId]:
    """Five commits on main."""
    return [commit_values(repo, {"a": str(number)}, message=f"m{number}") for number in range(5)]


def test_head_and_at_name_the_sessions_commit(repo: Repository, line: list[ObjectId]) -> None:
    assert repo.resolve("HEAD", "s") == repo.resolve("@", "s") == line[4]
    assert repo.resolve("HEAD~3", "s") == repo.resolve("@^^^") == line[1]
    detach(repo, line[1])
    assert repo.resolve("HEAD", "s") == line[1]
    assert repo.resolve("main") == repo.resolve("refs/heads/main") == repo.resolve("heads/main") == line[4]


def test_a_tag_is_preferred_to_a_branch_and_both_to_digits(repo: Repository, line: list[ObjectId]) -> None:
    repo.create_branch("x", line[1])
    repo.create_tag("x", line[2])
    assert repo.resolve("x") == repo.resolve("tags/x") == repo.resolve("refs/tags/x") == line[2]
    assert repo.resolve("heads/x") == line[1]
    digits = hex_of(line[3])[:6]
    repo.create_branch(digits, line[0])
    assert repo.resolve(digits) == line[0]


def test_unique_digits_name_a_commit(repo: Repository, line: list[ObjectId]) -> None:
    for length in (4, 5, 7, 64):
        assert repo.resolve(hex_of(line[2])[:length]) == line[2]
    assert repo.resolve(hex_of(line[2])[:9].upper()) == line[2]
    with pytest.raises(RefNotFoundError):
        repo.resolve(hex_of(line[2])[:3])
    with pytest.raises(RefNotFoundError):
        repo.resolve("0" * 64)


def test_digits_that_fit_several_commits_list_them(repo: Repository, line: list[ObjectId]) -> None:
    twin = ObjectId(line[0][:3] + bytes(29) + ALGORITHM)
    repo.store.put_many({Kind.COMMIT + twin: b""})
    with pytest.raises(AmbiguousRefError, match="fits 2 commits") as raised:
        repo.resolve(hex_of(line[0])[:5])
    assert set(raised.value.candidates) == {hex_of(line[0]), hex_of(twin)}
    if line[0][3] >> 4:
        assert repo.resolve(hex_of(line[0])[:7]) == line[0]


def test_the_reflog_tells_where_a_branch_and_head_were(repo: Repository, line: list[ObjectId]) -> None:
    assert repo.resolve("@{0}", "s") == line[4]
    assert repo.resolve("@{2}", "s") == repo.resolve("main@{2}") == repo.resolve("HEAD@{2}", "s") == line[2]
    assert repo.resolve("@{2}~1", "s") == line[1]
    repo.move_branch("main", line[0], "reset", line[4])
    assert repo.resolve("main@{1}") == line[4]
    assert repo.resolve("HEAD@{0}", "s") == line[4]  # nobody said that this session moved
    for text in ("main@{6}", "nobranch@{0}", "@{99}"):
        with pytest.raises(RefNotFoundError):
            repo.resolve(text, "s")


def test_the_previous_branches_are_counted_back(repo: Repository, line: list[ObjectId]) -> None:
    repo.create_branch("side", line[1])
    switch(repo, "side")
    assert repo.resolve("@{-1}", "s") == line[4]
    detach(repo, line[2])
    assert repo.resolve("@{-1}", "s") == line[1]
    assert repo.resolve("@{-2}~1", "s") == line[3]
    switch(repo, "main")
    assert repo.resolve("@{-1}", "s") == line[2]
    with pytest.raises(RefNotFoundError):
        repo.resolve("@{-9}", "s")
    with pytest.raises(RefNotFoundError):
        repo.resolve("main@{-1}", "s")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "HEAD~x",
        "HEAD^^^^^^^^^",
        "HEAD~99999",
        "~1",
        "^",
        "main@{one}",
        "main~1@{0}",
        "main^{tree}",
        "a b",
    ],
)
def test_what_names_nothing_is_not_found_and_the_known_names_are_shown(
    repo: Repository, line: list[ObjectId], text: str
) -> None:
    with pytest.raises(RefNotFoundError, match="main"):
        repo.resolve(text, "s")


def test_head_before_the_first_commit_is_not_found(repo: Repository) -> None:
    with pytest.raises(RefNotFoundError, match="none yet"):
        repo.resolve("HEAD")


def test_a_path_is_a_revision_and_a_name() -> None:
    assert split_path("main~1:df") == ("main~1", "df")
    assert split_path(":df") == ("HEAD", "df")
    assert split_path("main") == ("main", None)
    assert split_path("main:") == ("main", "")


def test_a_number_as_the_log_shows_it_names_the_newest_commit_of_that_cell() -> None:
    with Notebook(session_id="k.1") as nb:
        made = [nb.run(f"x = {number}").commit for number in range(3)]
        assert [nb.repo.resolve(f"[{number}]", nb.session.id) for number in (1, 2, 3)] == made
        assert nb.repo.resolve("[3]~1") == made[1]  # on the command line, in the session that was used last
        nb.session.undo()
        assert nb.repo.resolve("[2]", nb.session.id) == made[1]
        nb.session.checkout("[2]")
        nb.session.switch("other", create=True)
        beside = nb.run("x = 5").commit
        nb.session.switch("main")
        assert nb.repo.resolve("[4]", nb.session.id) == beside  # of a branch that HEAD is not on
    assert made[1] is not None
    with Notebook(nb.repo, session_id="k.2") as nb:
        nb.checkout()
        with pytest.raises(RefNotFoundError, match="number") as raised:
            nb.repo.resolve("[2]", nb.session.id)
        before = f"Before it, [2] was {short(made[1])}."
        assert str(raised.value) == f"No commit has the number [2] since the restart. {before}"
        with pytest.raises(RefNotFoundError, match=r"^No commit has the number \[99\]\.$"):
            nb.repo.resolve("[99]", nb.session.id)
        with pytest.raises(RefNotFoundError, match=f"the commit of cell .2. is {short(made[1])}$"):
            nb.repo.resolve("2", nb.session.id)
        again = nb.run("y = 1").commit
        assert nb.repo.resolve("[1]", nb.session.id) == again
        assert again is not None
        with pytest.raises(RefNotFoundError, match=f"the commit of cell .1. is {short(again)}, or .1.$"):
            nb.repo.resolve("1~0", nb.session.id)
        with pytest.raises(RefNotFoundError, match="no branch, tag or commit is called '77'"):
            nb.repo.resolve("77", nb.session.id)
