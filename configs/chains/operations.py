"""The operations that the layers of the example chains are made of: what each saves for its
backward (the first line of its text) and how often it goes over its tensors.
"""
# SPDX-License-Identifier: Apache-2.0
import math

from layer_costs import LayerCosts, Tensor


class Layer(LayerCosts):
    """Every method adds an operation and returns its output. With `is_frozen` parameters learn
    nothing, but for the adapters of linear()."""
    is_frozen = False

    def linear(self, x, features, bias=True, adapter=0, waits=True):
        """Saves x, where it is frozen nothing. Beside it an adapter of that rank (Hu et al. 2021),
        which saves x and what its first matrix makes of it. Gradients of weights may be made later
        if it `waits`."""
        y, width = self._tensor(x.shape[0], features), math.prod(x.shape[1:])
        y = self._product(x, y, width * features, features * bias, waits)
        if not adapter:
            return y
        self.is_frozen = False
        low = self._product(x, self._tensor(x.shape[0], adapter), width * adapter, 0, waits)
        high = self._product(low, self._like(y), adapter * features, 0, waits)
        self.is_frozen = True
        return self.add(y, high, in_place=True)

    def conv(self, x, channels, kernel, stride=1, bias=False):
        """Saves x. The image is padded so that its side is divided by the stride."""
        side = (x.shape[2] - 1) // stride + 1
        y = self._tensor(x.shape[0], channels, side, side)
        return self._product(x, y, kernel**2 * x.shape[1] * channels, channels * bias)

    def embedding(self, tokens, vocabulary, width):
        """Saves the tokens. The gradient of the table is dense."""
        y, parameters = self._tensor(tokens.shape[0], width), vocabulary * width
        return self.record((tokens,), y, (tokens,), **self._owned(parameters),
                           moved=(2 * y.bytes, y.bytes + 3 * parameters * self.device.gradient))

    def add_positions(self, x, positions):
        """Saves nothing."""
        return self.record((x,), self._like(x), moved=(2 * x.bytes, x.bytes),
                           **self._owned(positions * x.shape[1]), alias=True)

    def layer_norm(self, x):
        """Saves x, and mean and deviation of every row in float32."""
        return self.record((x,), self._like(x), (x, Tensor((x.shape[0], 2), 4)),
                           moved=(2 * x.bytes, 3 * x.bytes), **self._owned(2 * x.shape[1]))

    def batch_norm(self, x):
        """Saves x, and mean and deviation of every channel; has running statistics."""
        self.statistics += 2 * x.shape[1]
        return self.record((x,), self._like(x), (x, Tensor((x.shape[1], 2), 4)),
                           moved=(3 * x.bytes, 5 * x.bytes), parameters=2 * x.shape[1])

    def relu(self, x):
        """Saves its output, which it writes over x."""
        return self.record((x,), x, (x,), moved=(2 * x.bytes, 3 * x.bytes))

    def gelu(self, x):
        """Saves x."""
        return self.record((x,), self._like(x), (x,), moved=(2 * x.bytes, 3 * x.bytes))

    def add(self, x, branch, in_place=False):
        """Saves nothing. The backward's bytes are those of the sum where two gradients meet."""
        y = branch if in_place else self._like(x)
        return self.record((x, branch), y, moved=(3 * x.bytes, 3 * x.bytes), alias=True)

    def attention(self, qkv, heads, sequence):
        """Saves q, k, v, its output and the log-sum-exp of every row and head in float32.

        Causal and fused (Dao 2023): half of the scores are masked, the backward makes five products
        out of two and sums up the gradient of q in float32. The gradients of q, k and v, which are
        views of one tensor, are then copied into one."""
        rows, width = qkv.shape[0], qkv.shape[1] // 3
        y, lse = self._tensor(rows, width), Tensor((rows, heads), 4)
        self.record((qkv,), qkv, moved=(0, 2 * qkv.bytes))
        moved, workspace = qkv.bytes + y.bytes, 4 * rows * width + lse.bytes
        return self.record((qkv,), y, (qkv, y, lse), macs=rows * sequence * width, backward=2.5,
                           moved=(moved, 2 * moved + 2 * workspace), workspace=workspace)

    def max_pool(self, x):
        """Saves x, and the place of every maximum as int64. Halves the side."""
        y = self._tensor(*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
        places = Tensor(y.shape, 8)
        return self.record((x,), y, (x, places), moved=(x.bytes + y.bytes + places.bytes,) * 2)

    def average_pool(self, x):
        """Saves x. Halves the side."""
        y = self._tensor(*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
        return self.record((x,), y, (x,), moved=(x.bytes + y.bytes,) * 2)

    def mean(self, x):
        """Saves nothing. Over the whole image."""
        return self.record((x,), self._tensor(*x.shape[:2]), moved=(x.bytes, x.bytes))

    def concatenate(self, x, new):
        """Saves nothing; the gradients are views. Backward as in `add`, at x."""
        y = self._tensor(x.shape[0], x.shape[1] + new.shape[1], *x.shape[2:])
        return self.record((x, new), y, moved=(2 * y.bytes, 3 * x.bytes), alias=True)

    def cross_entropy(self, x):
        """Saves the logarithms of the probabilities in float32."""
        if x.item != 4:
            logits = Tensor(x.shape, 4)
            x = self.record((x,), logits, moved=(x.bytes + logits.bytes,) * 2)
        logs = Tensor(x.shape, 4)
        self.record((x,), logs, (logs,), moved=(2 * x.bytes, 3 * x.bytes))
        return self.record((logs,), Tensor((1,), 4), (logs,), moved=(0, logs.bytes))

    def _product(self, x, y, weights, biases, waits=False):
        """A backward has one product for weights that learn, and one for x where x needs it."""
        moved = x.bytes + y.bytes + weights * self.device.item
        backward = 2 - (x in self.constants) - self.is_frozen
        return self.record((x,), y, () if self.is_frozen else (x,),
                           macs=math.prod(y.shape) // y.shape[1] * weights, backward=backward,
                           moved=(moved, backward * moved), **self._owned(weights + biases),
                           waiting=weights if waits and not self.is_frozen else 0)

    def _owned(self, count):
        return {"frozen" if self.is_frozen else "parameters": count}

    def _tensor(self, *shape):
        return Tensor(shape, self.device.item)

    def _like(self, x):
        return self._tensor(*x.shape)
