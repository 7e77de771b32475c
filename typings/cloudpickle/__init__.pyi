from collections.abc import Callable, Mapping
from pickle import Pickler
from typing import Any

class CloudPickler(Pickler):
    dispatch_table: Mapping[type, Callable[[Any], Any]]

def dumps(obj: object, protocol: int | None = None) -> bytes: ...
def loads(data: bytes) -> object: ...
