"""What a layer costs: times by a roofline, bytes by following every tensor of its operations.

An operation takes max(FLOP / (FLOP/s), bytes moved / (bytes/s)) (Williams et al. 2009), a layer the
sum of its operations. What autograd keeps and when it lets go follow PyTorch: saved tensors go
operation by operation during a backward. Workspaces that a library picks by itself (cuDNN, cuBLAS)
are left out, the targets of the loss too.
"""
# SPDX-License-Identifier: Apache-2.0
import math
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """Rates that kernels reach; bytes of an activation; bytes that a parameter costs."""
    flops: float
    bandwidth: float
    item: int
    parameter: int
    gradient: int
    optimizer: int


@dataclass(eq=False)
class Tensor:
    """A value in memory; two of the same shape are two. First dimension: rows or images."""
    shape: tuple
    item: int

    @property
    def bytes(self):
        return math.prod(self.shape) * self.item


@dataclass
class Operation:
    inputs: tuple
    output: Tensor   # one of the inputs where the operation works in place or makes a view
    saved: tuple     # what autograd keeps for the operation's backward
    temporary: int   # bytes of its backward beside the gradients of its inputs
    waiting: int     # of these the gradient of weights that may be made later, dy^T x of its input
    alias: bool      # the gradient of the output is that of the inputs too, without a copy


def bytes_of(tensors):
    return sum(t.bytes for t in set(tensors))


class LayerCosts:
    """The operations of a layer, in the order of its forward."""

    def __init__(self, name, device, x, is_constant):
        self.name, self.device, self.input = name, device, x
        self.constants = {x} if is_constant else set()  # need no gradient
        self.operations = []
        self.parameters = self.frozen = self.statistics = self.macs = 0
        self.tied = 0  # of the parameters, those that another layer has, too
        self.forward_s = self.backward_s = self.weights_s = 0.0

    @property
    def output(self):
        return self.operations[-1].output

    def record(self, inputs, output, saved=(), *, moved, macs=0, backward=2, parameters=0, frozen=0,
               workspace=0, alias=False, waiting=0):
        """`moved`: bytes through memory, forward and backward; `macs`: multiply-adds of the forward;
        the backward has `backward` times as many. `frozen` parameters learn nothing. For `waiting`
        of the parameters the gradient is a product that may be made later, with as many
        multiply-adds and bytes as the forward's. Returns the output."""
        self.forward_s += self._time(macs, moved[0])
        self.weights_s += self._time(macs, moved[0]) if waiting else 0
        if parameters or not self.constants.issuperset(inputs):
            self.backward_s += self._time(backward * macs, moved[1])
        else:  # no gradient is wanted
            self.constants.add(output)
            saved, workspace = (), 0
        self.frozen += frozen
        self.macs += macs
        self.parameters += parameters
        # The gradient of a parameter is made first and then added to its buffer.
        temporary = workspace + parameters * self.device.gradient
        waiting *= self.device.gradient
        self.operations.append(Operation(inputs, output, saved, temporary, waiting, alias))
        return output

    def fields(self):
        """The layer's entry in a chain file."""
        kept, device = self._saved(), self.device
        tape = bytes_of(kept | {self.output})
        return {"name": self.name,
                "forward_s": f"{self.forward_s:.3e}", "backward_s": f"{self.backward_s:.3e}",
                "output_bytes": self.output.bytes, "tape_bytes": tape,
                "forward_transient_bytes": self._forward_peak(set()) - self.output.bytes,
                "tape_transient_bytes": self._forward_peak(kept) - tape,
                "backward_transient_bytes": self._backward(waits=False)[0],
                "parameter_bytes":
                    (self.parameters + self.frozen + self.statistics) * device.parameter,
                "gradient_bytes": self.parameters * device.gradient,
                "optimizer_bytes": self.parameters * device.optimizer,
                **self._may_leave(), **self._in_parts()}

    def _may_leave(self):
        """What a rank may have in its offload tier while other layers run."""
        if self.frozen:
            return {"frozen_bytes": self.frozen * self.device.parameter}
        own = self.parameters - self.tied
        return {"trained_bytes": own * self.device.parameter,
                "trained_gradient_bytes": own * self.device.gradient} if own else {}

    def _in_parts(self):
        """Of a backward that leaves products for later (Qi et al. 2024)."""
        peak, pending = self._backward(waits=True)
        # Operands that are there for each product: those of one go when it has been made.
        left = [bytes_of(set().union(*(operands for operands, _ in pending[k:])))
                for k in range(len(pending))]
        return {"backward_weights_s": f"{self.weights_s:.3e}", "pending_bytes": left[0],
                "backward_input_transient_bytes": peak,
                "backward_weights_transient_bytes":
                    max(gradient + there - left[0] for (_, gradient), there in zip(pending, left))
                } if pending else {}

    def _time(self, macs, moved):
        return max(2 * macs / self.device.flops, moved / self.device.bandwidth)

    def _saved(self):
        return {t for op in self.operations for t in op.saved} - {self.input}

    def _forward_peak(self, kept):
        """Most bytes above the input; a tensor goes after its last use unless it is kept."""
        last_use = {t: k for k, op in enumerate(self.operations) for t in op.inputs}
        live, peak = set(), 0
        for k, op in enumerate(self.operations):
            live |= {op.output, *op.saved} - {self.input}
            peak = max(peak, bytes_of(live))
            live = {t for t in live if last_use.get(t, 0) > k or t in kept or t is self.output}
        return peak

    def _backward(self, waits):
        """Most bytes above those from before. A saved tensor goes with the last operation that
        needs it, the output and its gradient stay to the end; where gradients meet, they are added
        in place. With `waits` products wait that may: also, of each, its operands, which stay, and
        the bytes of its gradient."""
        given = Tensor(self.output.shape, self.output.item)
        held, gradients = self._saved() | {self.output, given}, {self.output: given}
        uses = Counter(t for op in self.operations for t in op.saved)
        # In a chain file the new gradient of the input lies above what was there, whatever went.
        before, peak = bytes_of(held), bytes_of({self.input} - self.constants)
        pending = []
        for op in reversed(self.operations):
            if op.output in self.constants:
                continue
            gradient = gradients.pop(op.output)
            made = {t: gradient if op.alias else Tensor(t.shape, t.item)
                    for t in op.inputs if t not in self.constants}
            later = op.waiting if waits else 0
            live = bytes_of({*held, gradient, *gradients.values(), *made.values()})
            peak = max(peak, live + op.temporary - later - before)
            gradients |= made
            uses -= Counter(op.saved)
            held -= {t for t in op.saved if t not in uses and t is not self.output}
            if later:
                pending.append(({gradient, *op.inputs}, later))
            held |= {t for operands, _ in pending for t in operands} - {self.input}
        return peak, pending
