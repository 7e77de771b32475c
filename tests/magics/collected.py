"""What a collector has heard."""

from __future__ import annotations

from agent_kernel.magics.outputs import Collector
from agent_kernel.repository import Outputs


def kept(collector: Collector) -> Outputs:
    outputs = collector.take()
    assert outputs is not None
    return outputs


def texts(outputs: Outputs) -> list[str]:
    return [output.text for output in outputs.outputs]
