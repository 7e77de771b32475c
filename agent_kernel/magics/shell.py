"""What the extension uses of IPython's shell, with the types that IPython itself does not give."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol


class CellInfo(Protocol):
    """A cell that is about to run. Newer releases also have `cell_id`."""

    raw_cell: str
    store_history: bool
    silent: bool


class Outcome(Protocol):
    """How a cell ended."""

    info: CellInfo
    error_before_exec: BaseException | None
    error_in_exec: BaseException | None

    def raise_error(self) -> None: ...


class History(Protocol):
    """The inputs so far; the first one is empty, so that they count from 1."""

    input_hist_parsed: list[str]


class Events(Protocol):
    """What is called around every cell."""

    callbacks: dict[str, list[Callable[..., object]]]

    def register(self, event: str, function: Callable[..., object]) -> None: ...
    def unregister(self, event: str, function: Callable[..., object]) -> None: ...
    def trigger(self, event: str, *args: object) -> None: ...


class Publisher(Protocol):
    """Shows things beside a cell."""

    def publish(
        self,
        data: Mapping[str, object],
        metadata: dict[str, object] | None = None,
        *,
        transient: dict[str, str] | None = None,
        update: bool = False,
    ) -> None: ...


class Formatter(Protocol):
    """Knows what objects show of themselves."""

    def for_type_by_name(self, module: str, name: str, function: Callable[..., object]) -> object: ...
    def pop(self, name: str, default: object) -> object: ...


class Formatters(Protocol):
    """All kinds of these."""

    mimebundle_formatter: Formatter


class Transformers(Protocol):
    """Input transformers that work on tokens."""

    token_transformers: list[type]

    def transform_cell(self, cell: str) -> str: ...


class Completer(Protocol):
    """Where completers of extensions go."""

    custom_matchers: list[object]


class MagicsManager(Protocol):
    """The magics by kind and name, and the objects that hold them."""

    magics: dict[str, dict[str, object]]
    registry: dict[str, object]


class Loop(Protocol):
    """A kernel's event loop."""

    def add_callback(self, function: Callable[[], None]) -> None: ...


class Comms(Protocol):
    """A kernel's comms, by the names of what they are for."""

    def register_target(self, name: str, function: Callable[[Any, dict[str, object]], None]) -> None: ...
    def unregister_target(self, name: str, function: Callable[[Any, dict[str, object]], None]) -> object: ...


class Kernel(Protocol):
    """The kernel around a shell, where there is one."""

    io_loop: Loop
    comm_manager: Comms
    shell_stream: object

    def get_parent(self) -> dict[str, object]: ...
    def set_parent(self, ident: list[bytes], parent: dict[str, object]) -> None: ...


class Compiler(Protocol):
    """Compiles cells, and knows their code by file names that it makes up."""

    @property
    def cache(self) -> Callable[[str, int, str | None], str]: ...


class Shell(Protocol):
    """An InteractiveShell."""

    config: Mapping[str, Mapping[str, object]]
    user_ns: dict[str, object]
    autoawait: bool
    compile: Compiler
    loop_runner: Callable[[Coroutine[Any, Any, object]], object]
    kernel: Kernel
    user_ns_hidden: dict[str, object]
    execution_count: int
    history_manager: History | None
    events: Events
    display_pub: Publisher
    display_formatter: Formatters
    displayhook: Callable[[object], object]
    input_transformers_cleanup: list[object]
    input_transformer_manager: Transformers
    Completer: Completer
    configurables: list[object]
    custom_exceptions: tuple[type[BaseException], ...]
    CustomTB: Callable[..., object]
    magics_manager: MagicsManager

    def register_magics(self, *magics: object) -> None: ...
    def set_next_input(self, s: str, replace: bool = False) -> None: ...
    def transform_cell(self, raw_cell: str) -> str: ...
    def showtraceback(self, exc_tuple: tuple[type[BaseException], BaseException, object]) -> None: ...
    def run_cell(self, raw_cell: str, store_history: bool = False, *, cell_id: str | None = None) -> Outcome: ...
