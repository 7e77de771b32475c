"""Arguments: nothing ends the process, and every wrong word gets one line."""

from __future__ import annotations

import pytest

from agent_kernel.commands.scope import COMMANDS, Helped, Overview, UsageProblem, command_named, parser_of


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_explains_itself(verb: str) -> None:
    with pytest.raises(Helped) as told:
        parser_of(COMMANDS[verb]).read(["--help"])
    assert f"%agent {verb}" in str(told.value)
    assert "--json" in str(told.value)


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_refuses_an_option_it_does_not_know_in_one_line(verb: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        parser_of(COMMANDS[verb]).read(["--surely-not"])
    assert "\n" not in str(problem.value)


def test_everything_after_two_dashes_is_a_name() -> None:
    options = parser_of(COMMANDS["checkout"]).read(["HEAD~1", "--", "df", "-m", "--json"])
    assert (options.rev, options.names, options.json) == ("HEAD~1", ["df", "-m", "--json"], False)


def test_names_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(UsageProblem, match="takes no names"):
        parser_of(COMMANDS["gc"]).read(["--", "df"])


def test_an_option_may_be_repeated_or_take_several_names() -> None:
    options = parser_of(COMMANDS["merge"]).read(["other", "--ours", "a", "b", "--ours", "c", "--theirs", "d"])
    assert (options.ours, options.theirs) == (["a", "b", "c"], ["d"])


def test_an_abbreviated_option_is_refused() -> None:
    with pytest.raises(UsageProblem):
        parser_of(COMMANDS["checkout"]).read(["--keep"])


def test_exclusive_options_exclude_each_other() -> None:
    with pytest.raises(UsageProblem):
        parser_of(COMMANDS["branch"]).read(["-d", "-m", "x"])


def test_a_misspelled_verb_gets_a_suggestion() -> None:
    with pytest.raises(UsageProblem, match="did you mean checkout"):
        command_named("chekout")
    with pytest.raises(UsageProblem, match="the commands are bind status"):
        command_named("zzz")


def test_the_overview_names_every_verb() -> None:
    text = Overview("%agent").to_text(100)
    assert all(f"%agent {verb}" in text for verb in COMMANDS)
