"""What the history raises: what names a commit, who may move a branch, what can be merged."""

from __future__ import annotations

from agent_kernel.errors.base import AgentKernelError, NotFoundError


class RefNotFoundError(NotFoundError):
    """No branch, tag or commit has this name."""

    name: str
    known: tuple[str, ...] = ()
    reason: str = ""  # why it names nothing, where that is known
    remedy: str = ""

    def or_else(self, remedy: str) -> str:
        """Its remedy with another one behind it."""
        return "; ".join(filter(None, (self.remedy, remedy)))

    def __str__(self) -> str:
        names = tuple(dict.fromkeys(self.known))  # a branch and a tag may have the same one
        known = ", ".join(names[:8]) or "none yet"
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        what = f"{self.name!r} names no commit: {self.reason}" if self.reason else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        said = what or f"no branch, tag or commit is called {self.name!r}"
        return f"{said} (branches and tags: {known}{more}){remedy}"


class AmbiguousRefError(NotFoundError):
    """A shortened commit id fits several commits."""

    name: str
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.candidates[:8])
        return f"{self.name!r} fits {len(self.candidates)} commits: {shown}; give more digits"


class InvalidRefNameError(AgentKernelError, ValueError):
    """git would refuse this branch, tag or agent name, and so do we."""

    name: str
    reason: str
    what: str = "a branch or tag"

    def __str__(self) -> str:
        return f"{self.name!r} cannot name {self.what}: {self.reason}"


class RefExistsError(AgentKernelError):
    """A branch or tag of this name is already there."""

    name: str
    remedy: str = "choose another name"

    def __str__(self) -> str:
        return f"{self.name!r} already exists; {self.remedy}"


class UnmergedBranchError(AgentKernelError):
    """Deleting this branch would drop commits that no other ref reaches."""

    name: str
    commits: int

    def __str__(self) -> str:
        many = f"{self.commits} commits" if self.commits > 1 else "a commit"
        return (
            f"branch {self.name!r} has {many} that nothing else reaches; -D (from Python: force=True) deletes it anyway"
        )


class BranchMovedError(AgentKernelError):
    """Another session moved the branch since it was read."""

    branch: str

    def __str__(self) -> str:
        return f"branch {self.branch!r} was moved by another session; read it again, or work on a branch of your own"


class BranchInUseError(AgentKernelError):
    """A living process writes to this branch."""

    branch: str
    holder: str
    remedy: str = "end that one first, or work on another branch"

    def __str__(self) -> str:
        return f"branch {self.branch!r} is in use by {self.holder}; {self.remedy}"


class MergeConflictError(AgentKernelError):
    """Both sides changed the same variables. Nothing was changed."""

    conflicts: tuple[tuple[str, str, str], ...]  # (name, or name and key, our summary, their summary)
    together: tuple[tuple[str, ...], ...] = ()  # variables of which one choice is for all, group by group
    rev: str = ""  # what was to be merged, where the same can be asked for again with choices
    ours: tuple[str, ...] = ()  # what was chosen already
    theirs: tuple[str, ...] = ()
    message: str = ""  # of the commit that it was to be
    partial: bool = False
    picks: bool = False  # it is a cherry-pick

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables in conflict: `prices` for `prices['tea']`."""
        return tuple(name.partition("[")[0] for name, _, _ in self.conflicts)

    def partners(self, variable: str) -> tuple[str, ...]:
        """The other variables that a choice for this one also decides."""
        return tuple(name for group in self.together if variable in group for name in group if name != variable)

    def __str__(self) -> str:
        lines = [f"  {name}: ours {ours} | theirs {theirs}" for name, ours, theirs in self.conflicts]
        names = list(dict.fromkeys(self.variables))
        many = f"{len(names)} variables" if len(names) > 1 else "one variable"
        groups = [
            f"{', '.join(group)} share objects or a class: one choice is for all of them" for group in self.together
        ]
        taken = {name for group in self.together for name in group[1:]}
        asked = [name for name in names if name not in taken]
        choose = f"choose with --ours {asked[0]} or --theirs {asked[0]}" if asked else ""
        if len(asked) > 1:
            choose += f", and so for {', '.join(asked[1:])}"
        return "\n".join([f"both sides changed {many}; nothing was merged", *lines, *groups, choose])


class MergeChoiceError(AgentKernelError):
    """Both sides were chosen of variables that can only be taken from one. Nothing was changed."""

    names: tuple[str, ...]  # all that go together
    ours: tuple[str, ...]
    theirs: tuple[str, ...]

    def __str__(self) -> str:
        if len(self.names) == 1:
            return f"{self.names[0]} was chosen from both sides; nothing was merged: choose either ours or theirs"
        every = " ".join(self.names)
        return (
            f"{', '.join(self.names)} share objects or a class, so they cannot be --ours {' '.join(self.ours)} and "
            f"--theirs {' '.join(self.theirs)}; nothing was merged: choose --ours {every} or --theirs {every}"
        )


class MergeCommitError(AgentKernelError):
    """A commit of several parents made no one change that could be picked. Nothing was changed."""

    name: str
    parents: int

    def __str__(self) -> str:
        return (
            f"{self.name!r} is a merge of {self.parents} commits, so it is not one change that could be picked; "
            "pick commits of the side that it merged, or merge it"
        )


class UnrelatedHistoriesError(AgentKernelError):
    """The two commits share no ancestor."""

    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.ours} and {self.theirs} have no common ancestor, so there is nothing to merge from"
