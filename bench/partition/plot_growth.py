#!/usr/bin/env python3
"""Draws how long planning takes against layers, both by logarithm, as SVG on standard output.

    partition_bench scaling growth.json && bench/partition/plot_growth.py growth.json > docs/growth.svg

SPDX-License-Identifier: Apache-2.0
"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 70, 500, 20, 340
KINDS = {(False, False): ("equal blocks", "#1f6feb"), (True, False): ("all layers different", "#bc4c00"),
         (False, True): ("equal blocks, with copies", "#1a7f37"), (True, True): ("different, with copies", "#8250df")}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cases = json.loads(pathlib.Path(sys.argv[1]).read_text())
    layers = sorted({case["layers"] for case in cases})
    seconds = [case["planned_s"] for case in cases]
    decades = range(math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds))) + 1)

    def x(value):
        return LEFT + (RIGHT - LEFT) * math.log(value / layers[0]) / math.log(layers[-1] / layers[0])

    def y(value):
        return BOTTOM - (BOTTOM - TOP) * (math.log10(value) - decades[0]) / (decades[-1] - decades[0])

    stages = {case["layers"]: case["stages"] for case in cases}
    picture = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
               "<title>Seconds of planning against layers</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for decade in decades:
        at = y(10.0**decade)
        picture += [f'<path d="M{LEFT} {at:.1f}H{RIGHT}" stroke="#ddd"/>',
                    f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0 ** decade:g} s</text>']
    for count in layers:
        at = x(count)
        picture += [f'<path d="M{at:.1f} {TOP}V{BOTTOM}" stroke="#ddd"/>',
                    f'<text x="{at:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{count}</text>',
                    f'<text x="{at:.1f}" y="{BOTTOM + 34}" text-anchor="middle" fill="#666">{stages[count]}</text>']
    picture.append(f'<text x="{RIGHT + 30}" y="{BOTTOM + 18}">layers</text><text x="{RIGHT + 30}" y="{BOTTOM + 34}" fill="#666">stages</text>')
    for row, (kind, (name, colour)) in enumerate(KINDS.items()):
        points = [(x(case["layers"]), y(case["planned_s"])) for case in cases if (case["unlike"], case["copies"]) == kind]
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        picture.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        picture += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>' for px, py in points]
        picture += [f'<path d="M{RIGHT + 30} {40 + 22 * row}h28" stroke="{colour}" stroke-width="2"/>',
                    f'<text x="{RIGHT + 66}" y="{44 + 22 * row}">{name}</text>']
    print("\n".join(picture + ["</svg>"]))


if __name__ == "__main__":
    main()
