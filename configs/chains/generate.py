#!/usr/bin/env python3
"""Writes the example chains, the table in their README and the example platforms.

    configs/chains/generate.py                 writes all files
    configs/chains/generate.py --folder DIR    the same below DIR instead of configs/
    configs/chains/generate.py --table         prints the table, which has the multiply-adds too

Nothing is measured. Bytes follow from shapes (operations.py says what each operation saves), times
from shapes and the two rates of a device (layer_costs.py says how).
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
from dataclasses import dataclass, field
from pathlib import Path

from layer_costs import Device, Tensor
from operations import Layer

# Round figures of the order that kernels reach on such devices, far below their data sheets.
H100 = Device(400e12, 2.5e12, item=2, parameter=2, gradient=2, optimizer=12)
CARD = Device(15e12, 0.7e12, item=4, parameter=4, gradient=4, optimizer=4)
ORIGIN = {
    H100: """\
# an H100-like GPU with 400e12 FLOP/s in bfloat16 products and 2.5e12 bytes/s of memory. Bytes per
# parameter: 2 of value, 2 of gradient, 12 of optimizer (float32 value, Adam's two moments).""",
    CARD: """\
# a 24 GB card with 15e12 FLOP/s in float32 products and 0.7e12 bytes/s of memory. Bytes per
# parameter: 4 of value, 4 of gradient, 4 of optimizer (momentum)."""}

TIED = """\
# The head holds a copy of the embedding's token matrix: the two may be on different ranks.
"""


@dataclass
class Chain:
    name: str
    title: str
    device: Device
    input: Tensor
    samples: int  # sequences or images of a micro-batch
    tied: int = 0  # parameters of the head that are a copy of the embedding's
    is_frozen: bool = False  # adapters learn alone
    layers: list = field(default_factory=list)

    def layer(self, name):
        """A new last layer, on the output of the one before."""
        last = self.layers[-1] if self.layers else None
        x = last.output if last else self.input
        layer = Layer(name, self.device, x, is_constant=last is None or x in last.constants)
        layer.is_frozen = self.is_frozen
        self.layers.append(layer)
        return layer


def chains():
    gpt2, gpt3 = "GPT-2 {} (Radford et al. 2019)", "GPT-3 {} (Brown et al. 2020, table 2.1)"
    imagenet = "(He et al. 2016, strides in the 3 x 3 convolutions)"
    return [
        gpt("gpt2-124m", gpt2.format("124M"), 12, width=768, heads=12, batch=8, context=1024),
        gpt("gpt2-1.5b", gpt2.format("1.5B"), 48, width=1600, heads=25, batch=8, context=1024),
        gpt("gpt-1.3b", gpt3.format("XL"), 24, width=2048, heads=24, batch=1, context=2048),
        gpt("gpt-7b", gpt3.format("6.7B"), 32, width=4096, heads=32, batch=1, context=2048),
        gpt("gpt-13b", gpt3.format("13B"), 40, width=5140, heads=40, batch=1, context=2048),
        gpt("gpt-13b-lora", gpt3.format("13B"), 40, width=5140, heads=40, batch=1, context=2048,
            adapter=16),
        gpt("gpt-175b", gpt3.format("175B"), 96, width=12288, heads=96, batch=1, context=2048),
        resnet("resnet-50", f"ResNet-50 {imagenet}", blocks=(3, 4, 6, 3)),
        resnet("resnet-152", f"ResNet-152 {imagenet}", blocks=(3, 8, 36, 3)),
        vgg("vgg-16", "VGG-16 (Simonyan and Zisserman 2015, configuration D)"),
        densenet("densenet-121", "DenseNet-121 (Huang et al. 2017)", blocks=(6, 12, 24, 16)),
    ]


def gpt(name, title, blocks, width, heads, batch, context, vocabulary=50257, adapter=0):
    """A tied head, layer norms first. `heads` decide about the bytes of the log-sum-exp only: in
    GPT-3's table, heads of 128 do not always fill the width. With adapters of some rank beside the
    products of its blocks, these learn alone, and the head has weights of its own."""
    title += f", dense attention, micro-batch of {batch} x {context} tokens"
    if adapter:
        title += f",\n# frozen, with adapters of rank {adapter} (Hu et al. 2021) beside the products of its blocks"
    tokens = Tensor((batch * context,), 8)
    chain = Chain(name, title, H100, tokens, batch, tied=0 if adapter else vocabulary * width,
                  is_frozen=adapter > 0)
    layer = chain.layer("embedding")
    layer.add_positions(layer.embedding(tokens, vocabulary, width), context)
    for block in range(blocks):
        layer = chain.layer(f"block{block}.attention")
        qkv = layer.linear(layer.layer_norm(layer.input), 3 * width, adapter=adapter)
        y = layer.attention(qkv, heads, context)
        layer.add(layer.input, layer.linear(y, width, adapter=adapter))
        layer = chain.layer(f"block{block}.mlp")
        hidden = layer.linear(layer.layer_norm(layer.input), 4 * width, adapter=adapter)
        hidden = layer.gelu(hidden)
        layer.add(layer.input, layer.linear(hidden, width, adapter=adapter))
    layer = chain.layer("head")
    # Fused with the loss: its operand is as large as the logits and does not wait.
    logits = layer.linear(layer.layer_norm(layer.input), vocabulary, bias=False, waits=False)
    layer.cross_entropy(logits)
    for end in (chain.layers[0], layer):
        end.tied = chain.tied
    return chain


def image_chain(name, title, images=32):
    title += f",\n# micro-batch of {images} images of 224 x 224"
    return Chain(name, title, CARD, Tensor((images, 3, 224, 224), CARD.item), images)


def unit(layer, x, channels, kernel, stride=1):
    return layer.relu(layer.batch_norm(layer.conv(x, channels, kernel, stride)))


def resnet(name, title, blocks):
    chain = image_chain(name, title)
    layer = chain.layer("stem")
    layer.max_pool(unit(layer, layer.input, 64, 7, 2))
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            layer = chain.layer(f"stage{stage + 1}.block{block}")
            x, stride = layer.input, 2 if stage > 0 and block == 0 else 1
            hidden = unit(layer, unit(layer, x, width, 1), width, 3, stride)
            branch = layer.batch_norm(layer.conv(hidden, 4 * width, 1))
            if block == 0:
                x = layer.batch_norm(layer.conv(x, 4 * width, 1, stride))
            layer.relu(layer.add(x, branch, in_place=True))
    layer = chain.layer("head")
    layer.cross_entropy(layer.linear(layer.mean(layer.input), 1000))
    return chain


def vgg(name, title):
    """A layer is a convolution or a product with what follows it."""
    chain = image_chain(name, title)
    for group, (count, channels) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]):
        for number in range(count):
            layer = chain.layer(f"conv{group + 1}_{number + 1}")
            y = layer.relu(layer.conv(layer.input, channels, 3, bias=True))
            if number == count - 1:
                layer.max_pool(y)
    for number in (6, 7):
        layer = chain.layer(f"fc{number}")
        layer.relu(layer.linear(layer.input, 4096))
    layer = chain.layer("head")
    layer.cross_entropy(layer.linear(layer.input, 1000))
    return chain


def densenet(name, title, blocks, growth=32):
    """The output of a dense layer is its input followed by the new channels."""
    chain = image_chain(name, title)
    layer = chain.layer("stem")
    layer.max_pool(unit(layer, layer.input, 2 * growth, 7, 2))
    for block, count in enumerate(blocks):
        if block > 0:
            layer = chain.layer(f"transition{block}")
            half = layer.input.shape[1] // 2
            layer.average_pool(layer.conv(layer.relu(layer.batch_norm(layer.input)), half, 1))
        for number in range(count):
            layer = chain.layer(f"block{block + 1}.layer{number}")
            hidden = layer.conv(layer.relu(layer.batch_norm(layer.input)), 4 * growth, 1)
            hidden = layer.relu(layer.batch_norm(hidden))
            layer.concatenate(layer.input, layer.conv(hidden, growth, 3))
    layer = chain.layer("head")
    layer.cross_entropy(layer.linear(layer.mean(layer.relu(layer.batch_norm(layer.input))), 1000))
    return chain


def chain_text(chain):
    entries = (", ".join(f"{key}: {value}" for key, value in layer.fields().items())
               for layer in chain.layers)
    return f"""\
# {chain.title}.
#
# Written by: configs/chains/generate.py
# Nothing is measured: bytes are computed from the shapes of the layers, times by a roofline from
# round figures of the order that such devices reach:
{ORIGIN[chain.device]}
{TIED if chain.tied else ""}format: trireme-chain/1
name: {chain.name}
input_bytes: {chain.input.bytes}
layers:
""" + "".join(f"  - {{{entry}}}\n" for entry in entries)


def table(all_chains):
    rows = [("file", "layers", "parameters", "micro-batch", "multiply-adds per sample",
             "activations, `keep_all`", "forward", "backward"), ("---",) + ("--:",) * 7]
    for chain in all_chains:
        total = lambda key: sum(float(layer.fields()[key]) for layer in chain.layers)
        parameters = sum(layer.parameters + layer.frozen for layer in chain.layers) - chain.tied
        macs = sum(layer.macs for layer in chain.layers) / chain.samples
        activations = chain.input.bytes + total("tape_bytes")
        rows.append((f"`{chain.name}.yaml`", len(chain.layers), f"{parameters / 1e6:,.1f} M",
                     chain.samples, f"{macs / 1e9:,.2f} G", f"{activations / 2**30:.2f} GiB",
                     f"{total('forward_s') * 1e3:.1f} ms", f"{total('backward_s') * 1e3:.1f} ms"))
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)


def with_table(readme, text):
    """The README with `text` between its two marks."""
    begin, end = "<!-- table: written by generate.py -->\n", "<!-- end of the table -->\n"
    return readme[:readme.index(begin)] + begin + text + readme[readme.index(end):]


H100_RANK = dict(memory="76GB", host="200GB", disk="3TB", copy="50GB/s")
CARD_RANK = dict(memory="22.8GB", host="28GB", disk="200GB", copy="25GB/s")


def platforms():
    h100 = """\
# A rank is one GPU of 80 GB. PCIe 5 x16 is 64 GB/s each way on paper, and copies from pinned memory
# reach about 50. Host memory and disk: an eighth of a node with 2 TB and 30 TB, less the system's.
"""
    nvlink = "bytes_per_s: 450GB/s, latency_s: 5us"  # NVLink 4: 900 GB/s, both directions together

    def infiniband(nodes, comment):
        ranks = range(8 * nodes)
        pairs = [(a, b) for a in ranks for b in ranks[a + 1:] if a // 8 == b // 8]
        return platform_text(f"""\
{comment}
{h100}\
# Between nodes every GPU has its own 400 Gbit/s InfiniBand adapter, 50 GB/s each way (data sheet):
# the default link. The {len(pairs)} pairs within a node have NVLink instead.
""", [rank_text(**H100_RANK)] * len(ranks), "bytes_per_s: 50GB/s, latency_s: 10us",
                             [f"between: [{a}, {b}], {nvlink}" for a, b in pairs])

    mixed = dict(host="112GB", disk="800GB", copy="25GB/s")
    through_host = "bytes_per_s: 12GB/s, latency_s: 20us"
    return {
        "h100-80-nvlink-8": platform_text(f"""\
# One node of 8 H100-like GPUs, all joined by NVLink: 450 GB/s each way (data sheet).
{h100}{POWER_COMMENT}""", [rank_text(**H100_RANK, power=power_text(700, 100, 1980))] * 8, nvlink),
        "h100-80-infiniband-32": infiniband(
            4, "# Four nodes of 8 H100-like GPUs: ranks 0-7, 8-15, 16-23 and 24-31."),
        "h100-80-infiniband-64": infiniband(
            8, "# Eight nodes of 8 H100-like GPUs: ranks 0-7, 8-15, ..., 56-63."),
        "pcie-24-8": platform_text("""\
# One node with 8 cards of 24 GB. PCIe 4 x16 is 32 GB/s each way on paper, and copies from pinned
# memory reach about 25. Such cards reach each other through host memory only: half of that. Host
# memory and disk: an eighth of a node with 256 GB and 2 TB, less the system's.
""" + POWER_COMMENT, [rank_text(**CARD_RANK, power=power_text(450, 30, 2520))] * 8, through_host),
        "mixed-pair": platform_text("""\
# One host with two unlike cards: 80 GB, and 24 GB at half the speed. The first is the device that
# the chain's times are for. Both are on PCIe 4 x16: pinned copies at 25 GB/s, through host memory
# to each other at half of that. Each has half of 256 GB of host memory and of 2 TB of disk, less
# the system's.
""", [rank_text("76GB", **mixed), rank_text("22.8GB", **mixed, speed=0.5)], through_host),
    }


def rank_text(memory, host, disk, copy, speed=1, power=""):
    return (f"memory_bytes: {memory}, host_bytes: {host}, disk_bytes: {disk}, "
            f"out_bytes_per_s: {copy}, in_bytes_per_s: {copy}, speed: {speed}{power}")


POWER_COMMENT = """\
# busy_w is the board's power limit (data sheet), idle_w and the watts of copies are guesses. Clocks are
# a model: at the share f of the usual clock a pass takes 1 / f of its time and 0.25 + 0.75 f^3 of its
# watts, a part that does not depend on the clock and one that goes with clock and voltage squared.
"""


def power_text(busy, idle, mhz):
    shares = [1 - k / 20 for k in range(1, 9)]
    clocks = ", ".join(f"{{name: {round(mhz * f / 15) * 15}MHz, time: {1 / f:.3f}, "
                       f"power: {0.25 + 0.75 * f ** 3:.3f}}}" for f in shares)
    return (f",\n     busy_w: {busy}, idle_w: {idle}, copy_out_w: 10, copy_in_w: 10,"
            f"\n     clocks: [{clocks}]")


def platform_text(comment, ranks, link, overrides=()):
    lines = [f"""\
{comment}\
# memory_bytes is 95 % of the device's: the rest is for the driver's context, the communicators and
# what the allocator cannot fill. The transport holds one buffer beside each value.
# Written by: configs/chains/generate.py
# Round figures of the order of data sheets, nothing is measured.
format: trireme-platform/1
ranks:""", *(f"  - {{{rank}}}" for rank in ranks), f"""\
channel_buffers: 1
links:
  default: {{{link}}}"""]
    if overrides:
        lines += ["  overrides:", *(f"    - {{{override}}}" for override in overrides)]
    return "\n".join(lines) + "\n"


def write_all(folder):
    all_chains, here = chains(), Path(__file__).parent
    readme = with_table((here / "README.md").read_text(), table(all_chains))
    texts = {f"chains/{chain.name}.yaml": chain_text(chain) for chain in all_chains}
    texts |= {f"platforms/{name}.yaml": text for name, text in platforms().items()}
    for name, text in (texts | {"chains/README.md": readme}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--table", action="store_true", help="print the table, write nothing")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(chains()), end="")
    else:
        write_all(arguments.folder)


if __name__ == "__main__":
    main()
