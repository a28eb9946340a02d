#!/usr/bin/env python3
"""Writes the example graphs, the table in their README and the platforms of small devices.

    configs/graphs/generate.py                 writes all files
    configs/graphs/generate.py --folder DIR    the same below DIR instead of configs/

Nothing is measured: bytes and FLOPs follow from shapes, by the rules of network.py.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
from pathlib import Path

from network import Network

RESNET = "(He et al. 2016)"
VGG = "(Simonyan and Zisserman 2015, configuration D)"
BERT = "BERT-base (Devlin et al. 2019), one sequence of 128 tokens"
SMALL_IMAGE, IMAGE = "one image of 32 x 32", "one image of 224 x 224"


def networks():
    return [
        vgg("vgg-16-cifar", f"VGG-16 {VGG}, {SMALL_IMAGE}, 10 classes", side=32, classes=10),
        vgg("vgg-16", f"VGG-16 {VGG}, {IMAGE}", side=224, classes=1000),
        resnet("resnet-18-cifar", f"ResNet-18 {RESNET}, {SMALL_IMAGE}, 10 classes,\n"
               "# a first convolution of 3 x 3 without stride and no pooling after it",
               (2, 2, 2, 2), is_small=True),
        resnet("resnet-18", f"ResNet-18 {RESNET}, {IMAGE}", (2, 2, 2, 2)),
        resnet("resnet-50", f"ResNet-50 {RESNET}, strides in the 3 x 3 convolutions,\n# {IMAGE}",
               (3, 4, 6, 3), is_deep=True),
        bert("bert-base", BERT, blocks=12),
        bert_block("bert-block", "one block of BERT-base (Devlin et al. 2019), 128 tokens"),
        resnet("resnet-18-cifar-blocks", f"ResNet-18 as resnet-18-cifar.yaml, {BLOCKS}",
               (2, 2, 2, 2), is_small=True, by_blocks=True),
        resnet("resnet-18-blocks", f"ResNet-18 as resnet-18.yaml, {BLOCKS}",
               (2, 2, 2, 2), by_blocks=True),
        resnet("resnet-50-blocks", f"ResNet-50 as resnet-50.yaml, {BLOCKS}",
               (3, 4, 6, 3), is_deep=True, by_blocks=True),
        bert("bert-base-blocks", "BERT-base as bert-base.yaml, two nodes for each block",
             blocks=12, by_blocks=True),
    ]


BLOCKS = "a convolution with what follows it in one node"


def vgg(name, title, side, classes):
    net = Network(name, title, 3, side, side)
    x = net.input
    for group, (count, channels) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]):
        for number in range(count):
            place = f"{group + 1}_{number + 1}"
            x = net.conv(f"conv{place}", x, channels, 3, bias=True)
            x = net.relu(f"relu{place}", x)
        x = net.max_pool(f"pool{group + 1}", x, 2, 2)
    x = net.relu("relu6", net.flat_linear("fc6", x, 4096))
    x = net.relu("relu7", net.linear("fc7", x, 4096))
    net.cross_entropy("loss", net.linear("fc8", x, classes))
    return net


def resnet(name, title, blocks, is_small=False, is_deep=False, by_blocks=False):
    """With `by_blocks` the nodes of a block are its units, its shortcut and their sum."""
    side = 32 if is_small else 224
    net = Network(name, title, 3, side, side)

    def unit(node, number, x, channels, kernel, stride=1, is_last=False):
        if by_blocks:
            net.joined(f"{node}.unit{number}")
        x = net.conv(f"{node}.conv{number}", x, channels, kernel, stride)
        x = net.norm(f"{node}.norm{number}", x)
        return x if is_last else net.relu(f"{node}.relu{number}", x)

    x = unit("stem", 1, net.input, 64, 3 if is_small else 7, 1 if is_small else 2)
    if not is_small:
        x = net.max_pool("stem.pool", x, 3, 2)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            node, stride = f"stage{stage + 1}.block{block}", 2 if stage > 0 and block == 0 else 1
            if is_deep:
                y = unit(node, 2, unit(node, 1, x, width, 1), width, 3, stride)
                y = unit(node, 3, y, 4 * width, 1, is_last=True)
            else:
                y = unit(node, 1, x, width, 3, stride)
                y = unit(node, 2, y, width, 3, is_last=True)
            if y.shape != x.shape:
                net.joined(f"{node}.shortcut" if by_blocks else None)
                x = net.conv(f"{node}.shortcut", x, y.shape[0], 1, stride)
                x = net.norm(f"{node}.shortcut_norm", x)
            net.joined(f"{node}.sum" if by_blocks else None)
            x = net.relu(f"{node}.relu", net.add(f"{node}.add", y, x))
    net.joined("head" if by_blocks else None)
    x = net.linear("fc", net.mean("mean", x), 10 if is_small else 1000)
    net.joined(None)
    net.cross_entropy("loss", x)
    return net


ROWS, WIDTH, HEADS = 128, 768, 12


def bert(name, title, blocks, by_blocks=False):
    """Norms after the sums; a classifier of two classes on the first token. Without dropout."""
    net = Network(name, title, ROWS)
    net.joined("embedding" if by_blocks else None)
    x = net.norm("embedding_norm", net.embedding("embedding", net.input, WIDTH))
    for block in range(blocks):
        x = attention(net, f"block{block}", x, by_blocks)
        x = perceptron(net, f"block{block}", x, by_blocks)
    net.joined("head" if by_blocks else None)
    x = net.tanh("pooler_tanh", net.first_row("pooler", x, WIDTH))
    x = net.linear("classifier", x, 2)
    net.joined(None)
    net.cross_entropy("loss", x)
    return net


def bert_block(name, title):
    net = Network(name, title, ROWS, WIDTH)
    net.squares("loss", perceptron(net, "block", attention(net, "block", net.input)))
    return net


def attention(net, block, x, by_blocks=False):
    net.joined(f"{block}.attention" if by_blocks else None)
    q, k, v = (net.linear(f"{block}.{one}", x, WIDTH) for one in ("query", "key", "value"))
    y = net.softmax(f"{block}.softmax", net.scores(f"{block}.scores", q, k, HEADS))
    y = net.linear(f"{block}.projection", net.mixed(f"{block}.mixed", y, v), WIDTH)
    return net.norm(f"{block}.norm1", net.add(f"{block}.add1", y, x))


def perceptron(net, block, x, by_blocks=False):
    net.joined(f"{block}.mlp" if by_blocks else None)
    y = net.gelu(f"{block}.gelu", net.linear(f"{block}.fc1", x, 4 * WIDTH))
    y = net.linear(f"{block}.fc2", y, WIDTH)
    return net.norm(f"{block}.norm2", net.add(f"{block}.add2", y, x))


def graph_text(net):
    return f"""\
# A training step of {net.title}, float32.
#
# Written by: configs/graphs/generate.py
# Nothing is measured: bytes and FLOPs are computed from shapes (README.md says how).
format: trireme-graph/1
name: {net.name}
nodes:
""" + "".join(node.line() for node in net.nodes())


def table(all_networks):
    rows = [("file", "nodes", "forward", "backward", "forward outputs", "all outputs"),
            ("---",) + ("--:",) * 5]
    for net in all_networks:
        nodes = net.nodes()
        flops = [sum(node.flops for node in nodes if node.is_backward == kind) / 1e9
                 for kind in (False, True)]
        size = [sum(node.bytes for node in nodes if kind or not node.is_backward) / 2**20
                for kind in (False, True)]
        rows.append((f"`{net.name}.yaml`", len(nodes), *(f"{each:.2f} GFLOP" for each in flops),
                     *(f"{each:.2f} MiB" for each in size)))
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in rows)


def with_table(readme, text):
    """The README with `text` between its two marks."""
    begin, end = "<!-- table: written by generate.py -->\n", "<!-- end of the table -->\n"
    return readme[:readme.index(begin)] + begin + text + readme[readme.index(end):]


def platforms():
    microcontroller = ("out_bytes_per_s: 4.44MB/s, in_bytes_per_s: 4.617MB/s, out_latency_s: 113us, "
                       "in_latency_s: 109us, copies: in_turn, copy_out_w: 0.33, copy_in_w: 0.33")
    return {
        "mkr1000": platform_text(
            "Arduino MKR1000: a Cortex-M0+ at 48 MHz without floating-point unit",
            "# FLOP/s over FLOP/J are the 0.066 W of the table for computing.\n",
            f"memory_bytes: 32KiB, disk_bytes: 32GB, {microcontroller}, flops_per_s: 1.667e5, "
            "flops_per_j: 2.525e6, busy_w: 0.066"),
        "nrf52840": platform_text(
            "Nordic nRF52840: a Cortex-M4F at 64 MHz",
            "# FLOP/s over FLOP/J are the 0.01098 W of the table for computing.\n",
            f"memory_bytes: 256KiB, disk_bytes: 32GB, {microcontroller}, flops_per_s: 6.370e6, "
            "flops_per_j: 5.800e8, busy_w: 0.01098"),
        "raspberry-pi-4b": platform_text(
            "Raspberry Pi 4B: four Cortex-A72 at 1.5 GHz", """\
# FLOP/s over FLOP/J are 50 W, but the table has 3 W for computing. It has the same FLOP/J beside
# the 1.203e8 FLOP/s of the board without its caches, and there it fits. Joules here follow FLOP/J:
# with caches they are up to 16.6 times too many.
""", "memory_bytes: 2GiB, disk_bytes: 32GB, out_bytes_per_s: 24.5MB/s, in_bytes_per_s: 45.5MB/s, "
            "out_latency_s: 18.53us, in_latency_s: 5.096us, copy_out_w: 0.15, copy_in_w: 0.15, "
            "flops_per_s: 2e9, flops_per_j: 4.012e7, busy_w: 3.0"),
        "jetson-tx2": platform_text(
            "NVIDIA Jetson TX2, its four Cortex-A57 at 2 GHz", """\
# The table has no FLOP/s and no FLOP/J for this board. They are upper bounds from public figures:
# 4 cores x 2e9 Hz x 8 FLOP (one fused multiply-add of four float32, Arm's Cortex-A57) = 6.4e10
# FLOP/s, and that over the module's 15 W (NVIDIA's data sheet) = 4.267e9 FLOP/J. Kernels reach less.
# The table's 0.766 W for computing are not used: 8.4e10 FLOP/J are more than such a board has.
""", "memory_bytes: 8GiB, disk_bytes: 32GB, out_bytes_per_s: 94.37MB/s, in_bytes_per_s: 108.5MB/s, "
            "out_latency_s: 2.396ms, in_latency_s: 0.54ms, copy_out_w: 0.309, copy_in_w: 0.309, "
            "flops_per_s: 6.4e10, flops_per_j: 4.267e9, busy_w: 15"),
    }


def platform_text(title, note, rank):
    return f"""\
# {title}, with 32 GB of flash.
# Figures: POET (Patil et al., "Training Neural Networks on Tiny Devices with Integrated
# Rematerialization and Paging", ICML 2022) and the table of chips published with its code.
{note}\
# memory_bytes is all of the device's memory: subtract what programs, weights and gradients take.
# Written by: configs/graphs/generate.py
format: trireme-platform/1
ranks:
  - {{{rank}}}
"""


def write_all(folder):
    all_networks, here = networks(), Path(__file__).parent
    texts = {f"graphs/{net.name}.yaml": graph_text(net) for net in all_networks}
    texts |= {f"platforms/{name}.yaml": text for name, text in platforms().items()}
    texts["graphs/README.md"] = with_table((here / "README.md").read_text(), table(all_networks))
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent.parent)
    write_all(parser.parse_args().folder)


if __name__ == "__main__":
    main()
