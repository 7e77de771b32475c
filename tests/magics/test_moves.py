"""Going back and forth between branches, as a git user's fingers do it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.magics.shells import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("x = 1")
        shell.run("%agent switch -c side")
        shell.run("x = 2")
        yield shell


def branch(shell: Shell) -> str | None:
    found: str | None = shell.run("%agent status --json").json["branch"]
    return found


@pytest.mark.parametrize("line", ["switch -", "switch @{-1}", "checkout -", "checkout @{-1}", "checkout HEAD@{-1}"])
def test_the_branch_before_goes_by_a_dash(shell: Shell, line: str) -> None:
    shell.run(f"%agent {line}")
    assert (branch(shell), shell.ns["x"]) == ("main", 1)
    shell.run(f"%agent {line}")
    assert (branch(shell), shell.ns["x"]) == ("side", 2)


def test_a_dash_after_looking_at_a_commit_goes_back_to_the_branch(shell: Shell) -> None:
    shell.run("%agent checkout HEAD~1")
    assert branch(shell) is None
    shell.run("%agent switch -")
    assert (branch(shell), shell.ns["x"]) == ("side", 2)
    assert "- is not a branch; %agent checkout - goes to that commit" in shell.run("%agent switch -").err
    shell.run("%agent checkout -")
    assert (branch(shell), shell.ns["x"]) == (None, 1)


def test_a_dash_before_anything_was_left_says_so(tmp_path: Path) -> None:
    with Shell(store=str(tmp_path / "fresh")) as shell:
        shell.run("x = 1")
        assert "HEAD has not been moved in this session" in shell.run("%agent switch -").err


def test_a_branch_that_is_gone_is_not_gone_back_to(shell: Shell) -> None:
    shell.run("%agent branch -d main")
    typed = shell.run("%agent switch -")
    assert "'-' names no commit: main, which HEAD left, is gone" in typed.err
    assert branch(shell) == "side"


def test_the_branch_before_is_merged_by_a_dash(shell: Shell) -> None:
    shell.run("%agent switch -")
    assert shell.run("%agent merge -").result.success
    assert shell.ns["x"] == 2
    assert "Already up to date with side" in shell.run("%agent merge -").out


@pytest.mark.parametrize("verb", ["switch", "checkout", "rollback"])
def test_the_random_generators_may_be_left_as_they_are(shell: Shell, verb: str) -> None:
    shell.run("import random; random.seed(1)")
    shell.run("%agent tag seeded")
    shell.run("%agent switch -c more")
    shell.run("drawn = random.random()")
    draws = [draw.random() for draw in [random.Random(1)] * 3]
    shell.run(f"%agent {verb} {'side' if verb == 'switch' else 'seeded'} --keep-random")
    assert shell.run("random.random()").result.result == draws[1]
    shell.run("%agent switch more")
    shell.run(f"%agent {verb} {'side' if verb == 'switch' else 'seeded'}")
    assert shell.run("random.random()").result.result == draws[2 if verb == "switch" else 0]  # side has gone on since


def test_arriving_says_on_which_branch(shell: Shell) -> None:
    assert "[1] x = 1, on branch main: ~x" in shell.run("%agent checkout -").out
    assert "[3] x = 2, on no branch: ~x" in shell.run("%agent checkout side~0").out


@pytest.mark.parametrize("rev", ["HEAD", "@", "side"])
def test_checking_out_where_one_is_stays_on_the_branch(shell: Shell, rev: str) -> None:
    shell.run(f"%agent checkout {rev}")
    assert branch(shell) == "side"
    shell.run("x = 3")
    assert sorted(row["name"] for row in shell.run("%agent branch --json").json) == ["main", "side"]


def test_switch_takes_branches_and_says_what_takes_the_rest(shell: Shell) -> None:
    shell.run("%agent tag v1 main")
    said = shell.run("%agent switch v1").err
    assert "v1 is not a branch; %agent checkout v1 goes to that commit" in said
    assert "'nope'" in (said := shell.run("%agent switch nope").err)
    assert "%agent switch -c nope makes a branch here" in said


def test_two_dashes_without_a_name_are_not_all_variables(shell: Shell) -> None:
    assert "say which variables" in shell.run("%agent checkout main --").err
    assert (branch(shell), shell.ns["x"]) == ("side", 2)


def test_a_tag_called_like_a_branch_is_remarked_on_and_checkout_means_the_branch(shell: Shell) -> None:
    assert "heads/main the branch" in shell.run("%agent tag main side").out
    shell.run("%agent checkout main")
    assert (branch(shell), shell.ns["x"]) == ("main", 1)
    assert shell.run("%agent show main --json").json["refs"][0].startswith("side")


def test_a_move_names_the_records_that_it_took_along(shell: Shell, tmp_path: Path) -> None:
    """In place of: no variable changed."""
    shell.run("import agent_kernel")
    shell.run("class Note(agent_kernel.Record):\n    text: str = ''")
    shell.run(f"notes = agent_kernel.open({str(tmp_path / 'store')!r}).records(Note)")
    shell.run("notes.put(Note(id='a'))")
    assert "notes.put(Note(id='a')): records -Note:a" in shell.run("%agent undo").out
    assert "records +Note:a" in shell.run("%agent redo").out
    shell.run("%agent switch -c idea")
    shell.run("notes.put(Note(id='b')); x = 3")
    assert "Switched to branch side: ~x; records -Note:b" in shell.run("%agent switch side").out
    assert "~x; records +Note:b" in shell.run("%agent merge idea").out
