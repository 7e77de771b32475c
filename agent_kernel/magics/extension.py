"""What `%load_ext` registers with IPython, and takes away again on unload; and its options.

Options are set in a config file (`c.AgentKernel.commits = "agent"`), on the command line (`--AgentKernel.quiet=False`)
or while it runs (`%config AgentKernel.quiet = False`). What counts only as a store is opened says so when it is set.
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, cast
from weakref import WeakKeyDictionary

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult
from traitlets import Bool, Enum, Unicode
from traitlets.config import Configurable

from agent_kernel.agents.current import stands_here
from agent_kernel.magics.binding import Nothing
from agent_kernel.magics.magic import AgentMagics, Blanker, VerbHelp, open_conflicts
from agent_kernel.magics.notebook import CellHooks, LiveNotebook, starts_with_the_kernel
from agent_kernel.values.summaries.reading import module_dict

if TYPE_CHECKING:
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.magics.binding import MakesBeside, Options
    from agent_kernel.magics.shell import Shell
    from agent_kernel.storage import Durability

__all__ = ["AgentKernel", "draw_inline"]


class AgentKernel(Configurable):
    """Version control for this notebook's variables."""

    store = Unicode("", help="Where the store is: a folder or URL. Empty: beside the notebook.").tag(config=True)
    commits = Enum(
        ["all", "agent", "off"], "all", help="Which cells are commits: all, those of agents (%%agent), or none."
    ).tag(config=True)
    quiet = Bool(True, help="Print nothing after a cell if all its variables were saved.").tag(config=True)
    author = Unicode("", help="Who is named as the author of your cells. Empty: the user who is logged in.").tag(
        config=True
    )
    footer = Bool(True, help="Show a line under a cell that changed something, where the front end can.").tag(
        config=True
    )
    outputs = Enum(["keep", "none"], "keep", help="Whether commits keep what their cells showed.").tag(config=True)
    on_restart = Enum(
        ["offer", "restore"], "offer", help="What a fresh kernel does with the variables of the last one."
    ).tag(config=True)
    model = Unicode(
        "", help="The model that takes tasks: openai:NAME, anthropic:NAME … Empty: AGENT_KERNEL_MODEL."
    ).tag(config=True)
    durability = cast(
        "Durability",
        Enum(["default", "full"], "default", help="full: a power loss takes not even the last commit.").tag(
            config=True
        ),
    )

    _of: ClassVar[WeakKeyDictionary[Shell, AgentKernel]] = WeakKeyDictionary()

    def __init__(self, shell: Shell) -> None:
        super().__init__(parent=shell)
        self._shell = shell
        self._loaded = False
        self.notebook = LiveNotebook(shell, cast("Options", self))
        self._hooks = CellHooks(self.notebook)
        self._blanker = Blanker(shell.input_transformer_manager.transform_cell, lambda: list(shell.user_ns))
        self._magics: AgentMagics | None = None
        self._close_conflicts: Callable[[], None] = lambda: None
        self._matcher = _matcher(self.notebook)
        # Not before: what a config file says is set while the notebook is not there yet.
        self.observe(self._author_was_set, "author")
        self.observe(self._place_was_set, ["store", "durability"])

    def _author_was_set(self, _change: object) -> None:
        self.notebook.sign(self.author)

    def _place_was_set(self, _change: object) -> None:
        self.notebook.wait_for_bind()

    @classmethod
    def of(cls, shell: Shell) -> AgentKernel:
        """The extension of this shell, loaded or not."""
        if shell not in cls._of:
            cls._of[shell] = cls(shell)
        return cls._of[shell]

    def load(self, beside: MakesBeside | None = None) -> None:
        """Register everything and bind the notebook; harmless when repeated."""
        if self._loaded:
            return
        self._loaded = True
        shell = self._shell
        shell.events.register("pre_execute", self._hooks.pre_execute)
        shell.events.register("pre_run_cell", self._hooks.pre_run_cell)
        shell.events.register("post_run_cell", self._hooks.post_run_cell)
        shell.input_transformers_cleanup.append(self._blanker)
        shell.input_transformer_manager.token_transformers.append(VerbHelp)
        self._magics = AgentMagics(shell, self.notebook)
        shell.register_magics(self._magics)
        self._close_conflicts = open_conflicts(shell, self.notebook)
        shell.Completer.custom_matchers.append(self._matcher)
        shell.configurables.append(self)
        atexit.register(self._end)
        stands_here(self._here, self._guard)
        if beside is not None and getattr(getattr(shell, "kernel", None), "comm_manager", None) is not None:
            self.notebook.beside = beside(shell, self.notebook)
            self.notebook.beside.load()
        if not starts_with_the_kernel(shell) and self.commits != "off":
            self.notebook.bind_first()

    def unload(self) -> None:
        """Take everything away; harmless when repeated."""
        if not self._loaded:
            return
        self._loaded = False
        shell = self._shell
        shell.events.unregister("pre_execute", self._hooks.pre_execute)
        shell.events.unregister("pre_run_cell", self._hooks.pre_run_cell)
        shell.events.unregister("post_run_cell", self._hooks.post_run_cell)
        shell.input_transformers_cleanup.remove(self._blanker)
        shell.input_transformer_manager.token_transformers.remove(VerbHelp)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("agent", None)
        shell.magics_manager.registry.pop(AgentMagics.__name__, None)
        shell.Completer.custom_matchers.remove(self._matcher)
        registered = (self, self._magics)
        shell.configurables[:] = [one for one in shell.configurables if not any(one is each for each in registered)]
        self._close_conflicts()
        atexit.unregister(self._end)
        stands_here(self._here, stands=False)
        self.notebook.beside.unload()
        self._end()
        self._of.pop(shell, None)

    def _here(self) -> ExecutionContext:
        self.notebook.bind_first()
        return self.notebook.tasks.place()

    def _guard(self) -> None:
        from agent_kernel.magics.outputs.page import guard_page

        guard_page(self._shell)

    def _end(self) -> None:
        # As Python ends nobody is told any more: whoever shows something sees that the kernel is gone.
        self.notebook.beside = Nothing()
        self.notebook.close()


def _matcher(notebook: LiveNotebook) -> Callable[[CompletionContext], SimpleMatcherResult]:
    def agent_matcher(context: CompletionContext) -> SimpleMatcherResult:
        """Complete a line that starts with %agent."""
        from agent_kernel.magics.completion import candidates, words_so_far

        words = words_so_far(context.text_until_cursor)
        if words is None:
            return {"completions": []}
        found = [
            SimpleCompletion(text=word, type="agent") for word in candidates(words, notebook.scope, notebook.names)
        ]
        # What gives nothing suppresses nothing: IPython would offer its own magics. So the word stays as it is.
        found = found or [SimpleCompletion(text=words[-1], type="as typed")]
        return {"completions": found, "matched_fragment": words[-1], "suppress": True}

    # What IPython's decorator for matchers does, and gives no types for.
    vars(agent_matcher).update(matcher_api_version=2, matcher_identifier="agent_kernel", matcher_priority=0)
    return agent_matcher


# -- let figures that were loaded draw, as those do that a cell makes
#
# A kernel learns to draw figures when pyplot opens its first one: that imports the backend, which sets up the shell. A
# figure that comes back never goes through pyplot, so without this it would show as `<Figure size 640x480 with 1 Axes>`.

logger = logging.getLogger(__name__)

_BACKEND = "matplotlib_inline.backend_inline"
_NAMES = ("inline", f"module://{_BACKEND}")


def draw_inline() -> None:
    """Import the backend that draws in the page, if figures are there and it is the one that pyplot would take."""
    if "matplotlib.figure" not in sys.modules or _BACKEND in sys.modules or _chosen() not in _NAMES:
        return
    try:
        import_module(_BACKEND)
    except Exception:  # a move must not fail for the sake of a picture
        logger.exception("loaded figures cannot be drawn in the page")


def _chosen() -> object:
    """The backend that is set. Asking matplotlib itself would choose one where none is, and may start a window toolkit."""
    matplotlib = sys.modules.get("matplotlib")
    settings: object = module_dict(matplotlib).get("rcParams") if isinstance(matplotlib, ModuleType) else None
    if not isinstance(settings, dict):
        return None
    # Its own `get` would ask it: a dict's tells what it holds.
    return dict[str, object].get(cast("dict[str, object]", settings), "backend", None)
