from collections.abc import Callable, Mapping
from pickle import Pickler
from typing import Any, ClassVar

class CloudPickler(Pickler):
    dispatch_table: ClassVar[Mapping[type, Callable[[Any], Any]]]  # pyright: ignore[reportIncompatibleVariableOverride]

def dumps(obj: object, protocol: int | None = None) -> bytes: ...
def loads(data: bytes) -> object: ...
