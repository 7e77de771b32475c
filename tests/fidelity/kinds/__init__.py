"""The kinds of objects that a notebook holds, each with the cell that makes it and what must be true of it again."""

from tests.fidelity.kinds.arrays import ARRAYS
from tests.fidelity.kinds.class_bodies import CLASS_BODIES
from tests.fidelity.kinds.classes import CLASSES
from tests.fidelity.kinds.containers import CONTAINERS
from tests.fidelity.kinds.enums import ENUMS
from tests.fidelity.kinds.exceptions import EXCEPTIONS
from tests.fidelity.kinds.frames import FRAMES
from tests.fidelity.kinds.functions import FUNCTIONS
from tests.fidelity.kinds.holders import HOLDERS
from tests.fidelity.kinds.instances import INSTANCES
from tests.fidelity.kinds.kind import Kind
from tests.fidelity.kinds.models import MODELS
from tests.fidelity.kinds.plain import PLAIN
from tests.fidelity.kinds.records import RECORDS
from tests.fidelity.kinds.registries import REGISTRIES
from tests.fidelity.kinds.science import SCIENCE
from tests.fidelity.kinds.stdlib import STDLIB
from tests.fidelity.kinds.tensors import TENSORS

KINDS: tuple[Kind, ...] = (
    *PLAIN,
    *CONTAINERS,
    *STDLIB,
    *HOLDERS,
    *EXCEPTIONS,
    *FUNCTIONS,
    *CLASSES,
    *CLASS_BODIES,
    *ENUMS,
    *INSTANCES,
    *REGISTRIES,
    *RECORDS,
    *ARRAYS,
    *FRAMES,
    *SCIENCE,
    *MODELS,
    *TENSORS,
)

__all__ = ["KINDS", "Kind"]
