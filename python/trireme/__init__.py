"""Trains neural networks that do not fit into memory: pipeline, recomputation and offload planned together.

    chain = trireme.Chain([Embedding(...), *blocks, Head(...)], takes="tokens")
    run = trireme.train({"train": {"steps": 100}, "memory": {"device_budget": "4GiB"}}, chain, data=dataset)

Layers are torch.nn.Modules; docs/python.md says what they may do. `python -m trireme` has the commands.
"""

import torch

from ._built import TORCH as _BUILT_FOR


def _require_built_for(version: str) -> None:
    """Refuses another torch than the extension was built for, whose functions it would not find."""
    found, built = (text.split("+")[0].split(".")[:2] for text in (version, _BUILT_FOR))
    if found != built:
        raise ImportError(
            f"trireme was built for torch {_BUILT_FOR}, but torch {version} is installed: build it again, "
            "pip install --no-build-isolation --force-reinstall --no-deps trireme"
        )


_require_built_for(torch.__version__)

from ._chain import Chain, Layer  # noqa: E402
from ._errors import DoesNotFit, Error, InputError  # noqa: E402
from ._load import load_weights  # noqa: E402
from ._run import Plan, Step, Summary, is_main_process, plan, run, train  # noqa: E402

__all__ = ["Chain", "DoesNotFit", "Error", "InputError", "Layer", "Plan", "Step", "Summary", "is_main_process", "load_weights", "plan", "run", "train"]
