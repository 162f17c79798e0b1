"""What every measurement must say of the machine it was made on."""

from __future__ import annotations

import os
import platform
from typing import Any

import jax
import numpy as np


def machine() -> dict[str, Any]:
    """Device, cores, load averages and versions."""
    return {
        "device": jax.devices()[0].device_kind,
        "cores": os.cpu_count(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }
