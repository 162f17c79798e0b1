"""What all hand-written GPU kernels share: whether they can be compiled, and how."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax.experimental.pallas.triton import CompilerParams


def triton() -> ModuleType | None:
    """Pallas' Triton backend, None where this JAX has none."""
    try:
        from jax.experimental.pallas import triton as backend
    except ImportError:
        return None
    return backend


def compiler_params(interpret: bool, warps: int = 4) -> CompilerParams | None:
    """For `pallas_call`: how many warps a program has; nothing when it runs as ordinary JAX code."""
    backend = triton()
    return None if interpret or backend is None else backend.CompilerParams(num_warps=warps, num_stages=1)


def power_of_two(size: int) -> int:
    """The least power of two that is not smaller: the sides of Triton's blocks are such."""
    return 1 << (size - 1).bit_length()
