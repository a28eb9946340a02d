"""Random numbers of layers that are being built."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Meanwhile the generators of `random` and numpy begin with this seed; torch's is seeded by the runtime."""
    numpy = sys.modules.get("numpy")
    state = random.getstate()
    numpy_state = numpy.random.get_state() if numpy else None
    random.seed(seed)
    if numpy:
        numpy.random.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)


@contextlib.contextmanager
def all_seeded(seed: int) -> Iterator[None]:
    """As seeded(), torch's generator of the CPU, too."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        with seeded(seed):
            yield
    finally:
        torch.set_rng_state(state)
