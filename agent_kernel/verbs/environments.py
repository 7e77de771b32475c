"""What a commit ran on, and what differs between two such environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.repository import Commit, Kind, ObjectId, hex_of
from agent_kernel.session.environment import Environment, decode_environment
from agent_kernel.verbs import describe
from agent_kernel.verbs.output import Block, Json, Line, Result, Table
from agent_kernel.verbs.text import clean, plural

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = [
    "EnvironmentDifferences",
    "ShownEnvironment",
    "environment_changes",
    "environment_facts",
    "environment_of",
]


def environment_of(repo: Repository, commit: Commit | None) -> Environment | None:
    """What was noted when the commit was made; None if nothing was."""
    if commit is None or commit.environment is None:
        return None
    return decode_environment(repo.objects.get(Kind.SMALL, commit.environment))


def environment_changes(before: Environment | None, after: Environment | None) -> list[tuple[str, str, str, str]]:
    """What differs, by name: the sign, the name, the version before and after."""
    old, new = (_all(environment) for environment in (before, after))
    return [
        ("+" if name not in old else "-" if name not in new else "~", name, old.get(name, ""), new.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def environment_facts(environment: Environment) -> dict[str, str]:
    return {
        "python": environment.python,
        "implementation": environment.implementation,
        "platform": environment.platform,
    }


@dataclass(frozen=True)
class ShownEnvironment(Result):
    """The environment of one commit."""

    id: ObjectId
    commit: Commit
    environment: Environment | None

    def to_json(self) -> Json:
        where: dict[str, Json] = {"commit": hex_of(self.id), "cwd": self.commit.cwd or None}
        if self.environment is None:
            return {**where, "environment": None}
        facts: dict[str, Json] = {**environment_facts(self.environment), "packages": list(self.environment.packages)}
        return {**where, "environment": facts}

    def blocks(self) -> Sequence[Block]:
        head = Line(describe.label(self.id, self.commit), strong=True)
        directory = (("Working directory:", clean(self.commit.cwd)),) if self.commit.cwd else ()
        if self.environment is None:
            return [head, Table(("", ""), directory), Line("its environment was not recorded")]
        rows = tuple(
            (f"{name.capitalize()}:", clean(value)) for name, value in environment_facts(self.environment).items()
        )
        rows += directory
        packages = [tuple(map(clean, one.split("==", 1))) for one in self.environment.packages]
        count = plural(len(packages), "package") if packages else "its packages were not recorded"
        table = [Table(("Package", "Version"), tuple(packages))] if packages else []
        return [head, Table(("", ""), rows), Line(count), *table]


@dataclass(frozen=True)
class EnvironmentDifferences(Result):
    """What is different where a later commit ran."""

    old: tuple[ObjectId, Commit] | None
    new: tuple[ObjectId, Commit]
    before: Environment | None
    after: Environment | None

    def to_json(self) -> Json:
        rows: list[Json] = [
            {"name": name, "how": how, "old": old or None, "new": new or None}
            for how, name, old, new in environment_changes(self.before, self.after)
        ]
        return {"old": hex_of(self.old[0]) if self.old else None, "new": hex_of(self.new[0]), "environment": rows}

    def blocks(self) -> Sequence[Block]:
        before = describe.label(*self.old) if self.old else "nothing"
        head = [Line(f"--- {before}"), Line(f"+++ {describe.label(*self.new)}")]
        if self.before is None or self.after is None:
            return [*head, Line("the environment of one of them was not recorded")]
        rows = tuple(
            ("−" if how == "-" else how, clean(name), " → ".join(clean(version) for version in (old, new) if version))
            for how, name, old, new in environment_changes(self.before, self.after)
        )
        return [*head, Table(("", "", ""), rows)] if rows else [*head, Line("the environment is the same")]


def _all(environment: Environment | None) -> dict[str, str]:
    if environment is None:
        return {}
    packages = dict(one.split("==", 1) for one in environment.packages)
    return {name: version for name, version in environment_facts(environment).items() if version} | packages
