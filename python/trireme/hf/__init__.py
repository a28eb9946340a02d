"""Decoders of Hugging Face's transformers as chains.

    chain = trireme.hf.chain("./TinyLlama-1.1B", context=1024)
    run = trireme.train({"train": {...}, "checkpoint": {"every": 100}, "memory": {"device_budget": "8GiB"}}, chain, data=dataset)
    trireme.hf.export("./TinyLlama-1.1B", run, "my-model")

docs/huggingface.md says which models can be cut, and what they cost. It takes transformers 5.
"""

from __future__ import annotations

try:
    import transformers
except ImportError as error:
    raise ImportError(f"trireme.hf needs transformers, which cannot be imported ({error}): pip install 'transformers>=5'") from error
if int(transformers.__version__.split(".")[0]) < 5:
    raise ImportError(f"trireme.hf needs transformers 5 or newer, found {transformers.__version__}: pip install 'transformers>=5'")

from ._chain import back_into, chain, export  # noqa: E402

__all__ = ["back_into", "chain", "export"]
