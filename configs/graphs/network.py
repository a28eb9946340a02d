"""A network's operations, and the graph of its training step: what each node computes from what,
its FLOPs and the bytes of its output.

For every forward node but the last, the loss, there is a backward node `v.grad`, the gradient of
its output. It runs the backwards of the nodes that read v: it reads their gradients and what their
backwards need. Where a node has several inputs, the gradient of its first one also makes the
gradients of its weights. The gradient of the network's input is not needed: `input.grad` has no
bytes and makes the gradients of the first layer's weights alone.

Weights, their gradients and statistics of norms are not part of a graph. Where gradients meet, each
sum costs one FLOP per value.
"""
# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import dataclass

ITEM = 4  # bytes of a value, float32


@dataclass(eq=False)
class Operation:
    """By input, `input_flops` are those of its gradient, and `needs` the operations whose outputs
    that reads, this one too; the gradient of weights reads what that of the first input does.
    `node`: the name of the graph's node that the operation is a part of."""
    name: str
    node: str
    inputs: tuple
    shape: tuple
    flops: int = 0
    input_flops: tuple = ()
    weight_flops: int = 0
    needs: tuple = ()

    @property
    def values(self):
        return math.prod(self.shape)


@dataclass
class Node:
    name: str
    inputs: list
    bytes: int
    flops: int
    is_backward: bool = False

    def line(self):
        inputs = f", inputs: [{', '.join(self.inputs)}]" if self.inputs else ""
        flops = f", flops: {self.flops}" if self.inputs else ""
        backward = ", backward: true" if self.is_backward else ""
        return f"  - {{name: {self.name}{inputs}, output_bytes: {self.bytes}{flops}{backward}}}\n"


class Network:
    """Every method adds an operation and returns it; its text says what its backward reads and, in
    FLOPs per value of the output, what an operation without products costs: forward, backward."""

    def __init__(self, name, title, *shape):
        self.name, self.title = name, title
        self.operations = []
        self._node = None
        self.input = self._add("input", (), shape)

    def joined(self, node):
        """Until the next call, operations are parts of one node of that name; None: each is one."""
        self._node = node

    def conv(self, name, x, channels, kernel, stride=1, bias=False):
        """Reads x. The image is padded so that its side is divided by the stride."""
        side = (x.shape[1] - 1) // stride + 1
        shape = (channels, side, side)
        return self._product(name, x, shape, kernel**2 * x.shape[0], bias)

    def linear(self, name, x, features):
        """Reads x. With a bias."""
        return self._product(name, x, (*x.shape[:-1], features), x.shape[-1], bias=True)

    def flat_linear(self, name, x, features):
        """The same of an image, all of whose values are one row."""
        return self._product(name, x, (features,), x.values, bias=True)

    def norm(self, name, x):
        """Of batches or layers. Reads x. 8 FLOP; 8 and, for scale and shift, 3."""
        return self._add(name, (x,), x.shape, 8, (8,), weight=3, needs=({x},))

    def relu(self, name, x):
        """Reads its output. 1 FLOP; 1."""
        y = self._add(name, (x,), x.shape, 1, (1,))
        y.needs = ({y},)
        return y

    def tanh(self, name, x):
        """Reads its output. 1 FLOP; 3."""
        y = self._add(name, (x,), x.shape, 1, (3,))
        y.needs = ({y},)
        return y

    def gelu(self, name, x):
        """Reads x. 5 FLOP; 10."""
        return self._add(name, (x,), x.shape, 5, (10,), needs=({x},))

    def add(self, name, x, branch):
        """Reads nothing. 1 FLOP; none: both gradients are that of the sum, copied."""
        return self._add(name, (x, branch), x.shape, 1, (0, 0))

    def max_pool(self, name, x, kernel, stride):
        """Reads x and its output. kernel^2 FLOP; as many."""
        side = x.shape[1] // stride
        y = self._add(name, (x,), (x.shape[0], side, side), kernel**2, (kernel**2,))
        y.needs = ({x, y},)
        return y

    def mean(self, name, x):
        """Over the whole image. Reads nothing. As many FLOP as values of the image; as many."""
        side = x.shape[1] * x.shape[2]
        return self._add(name, (x,), x.shape[:1], side, (side,))

    def embedding(self, name, tokens, width):
        """Of token, position and kind of segment. Reads the tokens. 2 FLOP; 3, for the tables."""
        return self._add(name, (tokens,), (*tokens.shape, width), 2, (0,), weight=3,
                         needs=({tokens},))

    def scores(self, name, q, k, heads):
        """Scaled products of all rows, for every head. The gradient of each reads the other."""
        rows, width = q.shape
        return self._matrix_product(name, q, k, (heads, rows, rows), width // heads)

    def softmax(self, name, x):
        """Reads its output. 5 FLOP; 4."""
        y = self._add(name, (x,), x.shape, 5, (4,))
        y.needs = ({y},)
        return y

    def mixed(self, name, probabilities, v):
        """Sums of values by probability, for every head. The same."""
        return self._matrix_product(name, probabilities, v, v.shape, v.shape[0])

    def first_row(self, name, x, features):
        """A product of the first row alone. Reads x."""
        return self._product(name, x, (features,), x.shape[-1], bias=True)

    def cross_entropy(self, name, x):
        """The loss. Reads x. 5 FLOP for every value of x; 6."""
        return self._add(name, (x,), (1,), 5 * x.values, (6 * x.values,), needs=({x},))

    def squares(self, name, x):
        """The loss: the mean square of what x is off. Reads x. 3 FLOP for every value of x; 2."""
        return self._add(name, (x,), (1,), 3 * x.values, (2 * x.values,), needs=({x},))

    def nodes(self):
        """The graph: forward nodes in the order of the network, then backward ones in reverse."""
        groups = self._groups()
        kept = self._kept()
        forward = [Node(name, sorted_inputs(operations, groups),
                        ITEM * sum(op.values for op in operations if op in kept),
                        sum(op.flops for op in operations)) for name, operations in groups.items()]
        names = list(groups)
        backward = [self._gradient(name, groups) for name in reversed(names[:-1])]
        return forward + backward

    def _groups(self):
        groups = {}
        for operation in self.operations:
            groups.setdefault(operation.node, []).append(operation)
        return groups

    def _kept(self):
        """What a node leaves: what others read, and what backwards read, its own too."""
        kept = {self.operations[-1]}
        for operation in self.operations:
            kept |= set().union(*operation.needs)
            kept |= {x for x in operation.inputs if x.node != operation.node}
        return kept

    def _gradient(self, name, groups):
        loss = self.operations[-1].node
        order = list(groups) + [user + ".grad" for user in reversed(groups)]
        users = [user for user, operations in groups.items()
                 if name in sorted_inputs(operations, groups)]
        values = 0 if name == self.input.node else groups[name][-1].values
        inputs, flops = set(), values * (len(users) - 1)
        for user in users:
            shares = [self._share(op, name, groups[user]) for op in groups[user]]
            if any(is_part for is_part, _, _ in shares):
                inputs |= {x.node for _, _, needs in shares for x in needs} | {user + ".grad"}
            flops += sum(share for _, share, _ in shares)
        inputs.discard(loss + ".grad")
        return Node(name + ".grad", [x for x in order if x in inputs], ITEM * values, flops,
                    is_backward=True)

    def _share(self, operation, source, operations):
        """What an operation of a user does for the gradient of node `source`: whether anything, its
        FLOPs and what it reads. The gradients of its inputs that lie on the way there, and, if
        `source` is the user's first input, that of its weights."""
        is_part, flops, needs = False, 0, set()
        if operation.weight_flops and operations[0].inputs[0].node == source:
            is_part, flops, needs = True, operation.weight_flops, set(operation.needs[0])
        for x, one, read in zip(operation.inputs, operation.input_flops, operation.needs):
            if x is not self.input and leads_to(source, x, operations):
                is_part, flops, needs = True, flops + one, needs | read
        return is_part, flops, needs

    def _product(self, name, x, shape, terms, bias):
        flops = 2 * terms
        return self._add(name, (x,), shape, flops + bias, (flops,), weight=flops + bias, needs=({x},))

    def _matrix_product(self, name, a, b, shape, terms):
        return self._add(name, (a, b), shape, 2 * terms, (2 * terms,) * 2, needs=({b}, {a}))

    def _add(self, name, inputs, shape, flops=0, input_flops=(), weight=0, needs=None):
        """FLOPs are per value of the output."""
        values = math.prod(shape)
        self.operations.append(Operation(name, self._node or name, inputs, shape, flops * values,
                                         tuple(one * values for one in input_flops),
                                         weight * values, needs or (set(),) * len(inputs)))
        return self.operations[-1]


def sorted_inputs(operations, groups):
    """Names of the other nodes that operations of a node read, in the order of the network."""
    read = {x.node for op in operations for x in op.inputs} - {operations[0].node}
    return [name for name in groups if name in read]


def leads_to(source, value, operations):
    """Whether the gradient of an input of a node's operations leads to that of node `source`."""
    inner = value.inputs if value in operations else ()
    return value.node == source or any(leads_to(source, x, operations) for x in inner)
