"""The generators of configs/chains, configs/graphs and configs/platforms: what is committed is what
they write, and operations of chains cost what was measured or published.
"""
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
sys.path.insert(0, str(CONFIGS / "chains"))

import generate
from layer_costs import Device, Tensor
from operations import Layer


class Files(unittest.TestCase):
    def test_are_what_the_generator_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in ("chains/generate.py", "graphs/generate.py"):
                subprocess.run([sys.executable, "-B", CONFIGS / program, "--folder", folder],
                               check=True)
            written = {path.relative_to(folder): path.read_bytes()
                       for path in Path(folder).rglob("*") if path.is_file()}
        committed = {path.relative_to(CONFIGS): path.read_bytes()
                     for name in ("chains", "graphs", "platforms")
                     for path in (CONFIGS / name).iterdir()
                     if path.suffix in (".yaml", ".md")}
        self.assertEqual(sorted(written), sorted(committed))
        for path, text in written.items():
            self.assertEqual(text, committed[path], f"{path}: run generate.py of chains and graphs")


class MultiplyAdds(unittest.TestCase):
    def setUp(self):
        self.macs = {chain.name: sum(layer.macs for layer in chain.layers) / chain.samples
                     for chain in generate.chains()}

    def test_are_those_published_for_image_networks(self):
        # torchvision's tables of models, "GFLOPS", in 10^9 multiply-adds of one 224 x 224 image.
        published = {"resnet-50": 4.09, "resnet-152": 11.51, "vgg-16": 15.47, "densenet-121": 2.83}
        for name, expected in published.items():
            self.assertAlmostEqual(self.macs[name] / 1e9, expected, delta=0.005, msg=name)

    def test_are_those_of_the_formula_for_gpt(self):
        # Narayanan et al. 2021, appendix: 24 B s h^2 + 4 B s^2 h FLOP per block and 2 B s h V for
        # the logits; a causal mask leaves half of the scores.
        shapes = {"gpt2-124m": (12, 768, 1024), "gpt2-1.5b": (48, 1600, 1024),
                  "gpt-1.3b": (24, 2048, 2048), "gpt-7b": (32, 4096, 2048),
                  "gpt-13b": (40, 5140, 2048), "gpt-175b": (96, 12288, 2048)}
        for name, (blocks, h, s) in shapes.items():
            flop = blocks * (24 * s * h**2 + 4 * s**2 * h // 2) + 2 * s * h * 50257
            self.assertEqual(2 * self.macs[name], flop, name)


class Tapes(unittest.TestCase):
    """In float32, as LibTorch 2.11 leaves them on its CPU allocator, the same layers written
    with its operators; and backward peaks where the CPU kernels use no workspace of their own."""

    def layer(self, *shape, is_constant=False):
        device = Device(1, 1, item=4, parameter=4, gradient=4, optimizer=4)
        return Layer("layer", device, Tensor(shape, 4), is_constant)

    def assert_tape(self, layer, measured):
        self.assertEqual(layer.fields()["tape_bytes"], measured)

    def test_of_a_transformer(self):
        embedding = self.layer(128, is_constant=True)
        embedding.add_positions(embedding.embedding(embedding.input, 500, 96), 64)
        self.assert_tape(embedding, 49152)
        self.assertEqual(embedding.fields()["backward_transient_bytes"], 192000)

        attention = self.layer(128, 96)
        qkv = attention.linear(attention.layer_norm(attention.input), 288)
        attention.add(attention.input, attention.linear(attention.attention(qkv, 4, 64), 96))
        self.assert_tape(attention, 297984)

        mlp = self.layer(128, 96)
        hidden = mlp.gelu(mlp.linear(mlp.layer_norm(mlp.input), 384))
        mlp.add(mlp.input, mlp.linear(hidden, 96))
        self.assert_tape(mlp, 492544)
        self.assertEqual(mlp.fields()["backward_transient_bytes"], 344448)

    def test_of_image_networks(self):
        stem = self.layer(4, 3, 32, 32, is_constant=True)
        stem.max_pool(generate.unit(stem, stem.input, 64, 7, 2))
        self.assert_tape(stem, 721408)

        for channels, measured in ((64, 4199424), (256, 3148800)):  # with and without a projection
            block = self.layer(4, channels, 16, 16)
            x = block.input
            hidden = generate.unit(block, generate.unit(block, x, 64, 1), 64, 3)
            branch = block.batch_norm(block.conv(hidden, 256, 1))
            if channels != 256:
                x = block.batch_norm(block.conv(x, 256, 1))
            block.relu(block.add(x, branch, in_place=True))
            self.assert_tape(block, measured)

        pooled = self.layer(4, 64, 32, 32)
        pooled.max_pool(pooled.relu(pooled.conv(pooled.input, 64, 3, bias=True)))
        self.assert_tape(pooled, 1835008)

        dense = self.layer(4, 96, 16, 16)
        hidden = dense.conv(dense.relu(dense.batch_norm(dense.input)), 128, 1)
        dense.concatenate(dense.input, dense.conv(dense.relu(dense.batch_norm(hidden)), 32, 3))
        self.assert_tape(dense, 1967872)

        transition = self.layer(4, 256, 16, 16)
        x = transition.relu(transition.batch_norm(transition.input))
        transition.average_pool(transition.conv(x, 128, 1))
        self.assert_tape(transition, 1705984)


class BackwardsInTwoParts(unittest.TestCase):
    layer = Tapes.layer

    def assert_parts(self, layer, pending, weights, first=None):
        """`first`: peak of the first part. Chains hold the output to its end, trireme frees it."""
        fields = layer.fields()
        self.assertEqual(fields["pending_bytes"], pending)
        self.assertEqual(fields["backward_weights_transient_bytes"], weights)
        if first is not None:
            self.assertEqual(fields["backward_input_transient_bytes"], first + layer.output.bytes)

    def test_leave_what_was_measured_of_a_transformer(self):
        # trireme profile: model {kind: gpt, vocabulary: 500, context: 64, blocks: 1, width: 96,
        # heads: 4}, data {kind: synthetic}, train {batch: 4, micro_batch: 2}, threads 1. The CPU's
        # attention has a workspace of its own, which sets the peak of its first part.
        attention = self.layer(128, 96)
        qkv = attention.linear(attention.layer_norm(attention.input), 288)
        attention.add(attention.input, attention.linear(attention.attention(qkv, 4, 64), 96))
        self.assert_parts(attention, pending=294912, weights=36864)

        mlp = self.layer(128, 96)
        hidden = mlp.gelu(mlp.linear(mlp.layer_norm(mlp.input), 384))
        mlp.add(mlp.input, mlp.linear(hidden, 96))
        self.assert_parts(mlp, pending=491520, weights=147456, first=344064)

    def test_leave_what_was_measured_of_adapters(self):
        # The same with lora_rank 8. Its first parts also scale gradients, which a chain leaves out.
        attention, mlp = self.layer(128, 96), self.layer(128, 96)
        attention.is_frozen = mlp.is_frozen = True
        qkv = attention.linear(attention.layer_norm(attention.input), 288, adapter=8)
        y = attention.linear(attention.attention(qkv, 4, 64), 96, adapter=8)
        attention.add(attention.input, y)
        self.assert_parts(attention, pending=311296, weights=3072)

        hidden = mlp.gelu(mlp.linear(mlp.layer_norm(mlp.input), 384, adapter=8))
        mlp.add(mlp.input, mlp.linear(hidden, 96, adapter=8))
        self.assert_parts(mlp, pending=507904, weights=3072)

    def test_leave_what_was_measured_of_a_perceptron(self):
        # trireme profile: model {kind: mlp, inputs: 60, widths: [200, 200], classes: 11}, data
        # {kind: synthetic}, train {batch: 64, micro_batch: 32}, threads 1. The input is an operand.
        first, second = self.layer(32, 60, is_constant=True), self.layer(32, 200)
        for layer in (first, second):
            layer.gelu(layer.linear(layer.input, 200))
        self.assert_parts(first, pending=33280, weights=48000, first=0)
        self.assert_parts(second, pending=51200, weights=160000, first=800)

        classifier = self.layer(32, 200)  # chains leave out what the loss keeps of targets
        classifier.cross_entropy(classifier.linear(classifier.input, 11))
        self.assert_parts(classifier, pending=27008, weights=8800)

    def test_take_as_long_as_the_products_of_weights(self):
        # 2 FLOP per row, input and output of every weight: in w x 3w and w x w, w x 4w and 4w x w.
        shapes = {"gpt2-124m": (768, 8 * 1024), "gpt2-1.5b": (1600, 8 * 1024),
                  "gpt-1.3b": (2048, 2048), "gpt-7b": (4096, 2048), "gpt-13b": (5140, 2048),
                  "gpt-175b": (12288, 2048)}
        for chain in generate.chains():
            if chain.name not in shapes:
                continue
            w, rows = shapes[chain.name]
            for layer in chain.layers[1:-1]:
                weights = (4 if layer.name.endswith("attention") else 8) * w * w
                self.assertEqual(layer.fields()["backward_weights_s"],
                                 f"{2 * rows * weights / 400e12:.3e}", chain.name)

    def test_are_those_of_layers_with_linear_weights_that_learn(self):
        for chain in generate.chains():
            names = [layer.name for layer in chain.layers if "pending_bytes" in layer.fields()]
            expected = ["fc6", "fc7", "head"] if chain.name == "vgg-16" else ["head"]
            if chain.name.startswith("gpt"):
                expected = [layer.name for layer in chain.layers[1:-1]]
            self.assertEqual(names, expected, chain.name)


if __name__ == "__main__":
    unittest.main()
