"""Errors of trireme, and how those of the caller's code are told."""

from __future__ import annotations

import functools
import os
import traceback
from types import TracebackType

import torch

_HIDDEN = (*(os.path.dirname(os.path.abspath(file)) + os.sep for file in (torch.__file__, __file__)), functools.__file__)
_FRAMES = 4
_LEAF_CHANGED = "leaf Variable that requires grad is being used in an in-place operation"


class Error(RuntimeError):
    """What went wrong, where, and what to do."""


class InputError(Error):
    """The caller's input is wrong: a job, a layer, an example."""


class DoesNotFit(Error):
    """Nothing fits the memory budgets.

    least_budget: bytes of a device budget that works, None where none is known.
    """

    def __init__(self, text: str, least_budget: int | None = None):
        super().__init__(text)
        self.least_budget = least_budget


def told(error: BaseException, trace: TracebackType | None) -> str:
    """'ValueError: no such thing', and the last lines of code that are the caller's."""
    if isinstance(error, Error):
        return str(error)
    lines = ["".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", "\n  ")]
    frames = [frame for frame in traceback.extract_tb(trace) if not os.path.abspath(frame.filename).startswith(_HIDDEN)]
    for frame in frames[-_FRAMES:]:
        lines.append(f"  {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line or ''}".rstrip(": "))
    if _LEAF_CHANGED in str(error):
        lines.append("  a layer must not change its input or a parameter in place: write the result to a new tensor (x = x + 1, not x += 1)")
    return "\n".join(lines)
