#!/usr/bin/env python3
"""Text to tokens and back, with the tokenizer of a model from Hugging Face (its folder has a tokenizer.json).

    tokens.py encode MODEL OUTPUT FILE...     all files as one list of little-endian uint16 or uint32, for data.kind: tokens
    tokens.py numbers MODEL TEXT              for trireme generate --prompt-tokens
    tokens.py text MODEL 464,2068,...         what generate printed

Needs numpy and tokenizers. In OUTPUT every file ends with the model's end-of-text token, if its config.json names one.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import pathlib
import sys

import numpy
from tokenizers import Tokenizer


def end_of_text(model):
    file = model / "config.json"
    end = json.loads(file.read_text()).get("eos_token_id") if file.exists() else None
    return [end[0] if isinstance(end, list) else end] if end is not None else []


def encode(model, output, *files):
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    size = 2 if tokenizer.get_vocab_size() <= 1 << 16 else 4
    end = end_of_text(model)
    count = 0
    with open(output, "wb") as out:
        for file in files:
            text = pathlib.Path(file).read_text(encoding="utf-8", errors="replace")
            ids = tokenizer.encode(text, add_special_tokens=False).ids + end
            out.write(numpy.array(ids, dtype=f"<u{size}").tobytes())
            count += len(ids)
    print(f"{count} tokens in {output}: data: {{kind: tokens, files: [{output}], token_bytes: {size}}}")


def numbers(model, text):
    ids = Tokenizer.from_file(str(model / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    print(",".join(map(str, ids)))


def text(model, ids):
    print(Tokenizer.from_file(str(model / "tokenizer.json")).decode([int(i) for i in ids.split(",")]))


if __name__ == "__main__":
    verbs = {"encode": encode, "numbers": numbers, "text": text}
    if len(sys.argv) < 4 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    verbs[sys.argv[1]](pathlib.Path(sys.argv[2]), *sys.argv[3:])
