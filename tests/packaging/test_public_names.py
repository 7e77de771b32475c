"""What `import agent_kernel as ak` promises is there, typed and complete."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from importlib import metadata
from pathlib import Path

import pytest

import agent_kernel
from agent_kernel import errors, repository

API = (
    agent_kernel.Repository,
    repository.Repository,
    agent_kernel.Session,
    agent_kernel.Snapshot,
    agent_kernel.Versioned,
    agent_kernel.Live,
    agent_kernel.Agent,
    agent_kernel.Run,
)


@pytest.mark.parametrize("name", agent_kernel.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value: object = getattr(agent_kernel, name)
    assert getattr(value, "__doc__", None), f"{name} says nothing about itself"


@pytest.mark.parametrize("kind", API, ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
def test_every_public_method_says_what_it_does(kind: type) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")}
    ours = {name for base in kind.__mro__ if base.__module__.startswith("agent_kernel") for name in vars(base)}
    assert [name for name in sorted(public & ours) if not inspect.getdoc(getattr(kind, name))] == []


def test_the_public_names_are_sorted_and_listed_once() -> None:
    assert agent_kernel.__all__ == sorted(set(agent_kernel.__all__))


def test_every_error_is_public() -> None:
    raised = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.AgentKernelError)
    }
    assert raised == {name for name in agent_kernel.__all__ if name.endswith("Error")}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = agent_kernel.opne


def test_tab_completion_sees_the_lazy_names() -> None:
    assert set(agent_kernel.__all__) <= set(dir(agent_kernel))


def test_the_version_is_the_one_that_pip_shows() -> None:
    assert metadata.version("agent-kernel") == agent_kernel.__version__


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert (Path(inspect.getfile(agent_kernel)).parent / "py.typed").exists()


@pytest.mark.parametrize("package", ["agent_kernel.agents", "agent_kernel.session", "agent_kernel.values.previews"])
def test_no_name_that_loads_later_is_called_as_a_module_beside_it(package: str) -> None:
    # Whoever imports that module would make the name mean the module.
    found = importlib.import_module(package)
    modules = {module.name for module in pkgutil.iter_modules(found.__path__)}
    names = {name for names in vars(found)["_HOMES"].values() for name in names}
    assert names
    assert not modules & names
