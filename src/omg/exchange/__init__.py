"""Agents from and for other programs: checkpoints of PyMARL, EPyMARL and the old OMG code, PyTorch, ONNX.

PyTorch is not needed for any of it. A network that others have too gets its links in `layers`.
"""

from omg.exchange.agents import FORMATS, Written, export_agent, import_agent
from omg.exchange.torch_files import read_torch, write_torch

__all__ = ["FORMATS", "Written", "export_agent", "import_agent", "read_torch", "write_torch"]
