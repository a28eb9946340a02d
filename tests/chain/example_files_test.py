"""The generator of configs/chains and configs/platforms: what is committed is what it writes, and
its operations cost what was measured or published.
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
            program = CONFIGS / "chains/generate.py"
            subprocess.run([sys.executable, "-B", program, "--folder", folder], check=True)
            written = {path.relative_to(folder): path.read_bytes()
                       for path in Path(folder).rglob("*") if path.is_file()}
        committed = {path.relative_to(CONFIGS): path.read_bytes()
                     for name in ("chains", "platforms") for path in (CONFIGS / name).iterdir()
                     if path.suffix in (".yaml", ".md")}
        self.assertEqual(sorted(written), sorted(committed))
        for path, text in written.items():
            self.assertEqual(text, committed[path], f"{path}: run configs/chains/generate.py")


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
    """In float32, as LibTorch 2.11 leaves them behind on its CPU allocator, the same layers written
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


if __name__ == "__main__":
    unittest.main()
