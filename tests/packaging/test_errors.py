"""Errors come back whole from a worker process, and say in one sentence what is wrong."""

from __future__ import annotations

import copy
import inspect
import pickle
import pickletools

import pytest

from agent_kernel import errors
from agent_kernel.errors import AgentKernelError

KINDS = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, AgentKernelError)]
SAMPLES: dict[str, object] = {
    "str": "trai\u0144",
    "int": 3,
    "bool": True,
    "float": 0.5,
    "float | None": 1.5,
    "str | None": "draft",
    "tuple[str, ...]": ("main", "try-harder"),
    "tuple[tuple[str, ...], ...]": (("a", "b"), ("c", "d")),
    "tuple[tuple[tuple[str, ...], str], ...]": ((("a", "b"), "No module named 'demo'"), (("c",), "it is damaged")),
    "tuple[tuple[str, str, str], ...]": (("df", "DataFrame 3 x 2", "DataFrame 4 x 2"),),
}


def sample(kind: type[AgentKernelError]) -> AgentKernelError:
    if not kind.__match_args__:
        return kind("what went wrong")
    types = {name: said for base in reversed(kind.__mro__) for name, said in inspect.get_annotations(base).items()}
    return kind(**{name: SAMPLES[types[name]] for name in kind.__match_args__})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling(kind: type[AgentKernelError], protocol: int) -> None:
    error = sample(kind)
    back = pickle.loads(pickle.dumps(error, protocol))
    assert type(back) is kind
    assert vars(back) == vars(error)
    assert str(back) == str(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_known_by_one_module_whichever_file_it_is_written_in(kind: type[AgentKernelError]) -> None:
    # A release whose errors lie in other files reads what this one stored, and this one what that one did.
    named = {said for _, said, _ in pickletools.genops(pickle.dumps(sample(kind), 5)) if isinstance(said, str)}
    assert {said for said in named if said.startswith("agent_kernel")} == {"agent_kernel.errors"}
    assert {"_bare", kind.__name__} <= named


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_copying(kind: type[AgentKernelError]) -> None:
    error = sample(kind)
    assert str(copy.deepcopy(error)) == str(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_speaks_in_a_plain_sentence(kind: type[AgentKernelError]) -> None:
    text = str(sample(kind))
    assert text
    assert not text.endswith(".")
    assert "<" not in text, "an object's repr slipped into the message"


def test_what_is_not_there_is_also_a_key_error() -> None:
    assert issubclass(errors.RefNotFoundError, KeyError)
    assert str(errors.RefNotFoundError("other", ("train",))) == (
        "no branch, tag or commit is called 'other' (branches and tags: train)"
    )


def test_a_ref_that_is_spelled_almost_so_is_offered_and_a_branch_that_nobody_named_is_not() -> None:
    known = ("main", "clean", "preview/0123abcd-ab12c", "race/ab12c/1")
    assert str(errors.RefNotFoundError("cleen", known)) == (
        "no branch, tag or commit is called 'cleen'; did you mean clean?"
    )
    assert str(errors.RefNotFoundError("other", known)).endswith("(branches and tags: main, clean)")


def test_an_error_takes_its_fields_as_a_dataclass_does() -> None:
    error = errors.StoreReadOnlyError("lmdb:///a")
    assert repr(error) == "StoreReadOnlyError(url='lmdb:///a', reason='it is read-only')"
    assert errors.StoreReadOnlyError(reason="of ice", url="lmdb:///a").reason == "of ice"


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), (("a", "b", "c"), {}), (("a",), {"url": "b"}), (("a",), {"place": "b"})]
)
def test_an_error_refuses_fields_that_it_does_not_have(values: tuple[str, ...], named: dict[str, str]) -> None:
    kind: type[AgentKernelError] = errors.StoreUnavailableError
    with pytest.raises(TypeError, match="takes url, reason"):
        kind(*values, **named)
