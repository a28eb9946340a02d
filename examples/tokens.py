#!/usr/bin/env python3
"""Text to tokens and back, with the tokenizer of a model from Hugging Face (its folder has a tokenizer.json).

    tokens.py encode MODEL OUTPUT FILE...      all files as one list of little-endian uint16 or uint32, for data.kind: tokens
    tokens.py documents MODEL OUTPUT FILE...   a document per line, which says what of it is learned, for data.kind: documents
    tokens.py numbers MODEL TEXT               for trireme generate --prompt-tokens, with what the model has before a text
    tokens.py text MODEL 464,2068,...          what generate printed

Needs tokenizers. In OUTPUT every file or document ends with the model's end-of-text token, if its config.json names one. A line is one of these, in JSON,

    {"prompt": TEXT, "completion": TEXT}       the completion is learned
    {"messages": [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}, ...]}
                                               what the assistant says is learned; needs transformers, for the model's chat template
    {"text": TEXT}                             all of it is learned

or, in a file named *.tsv, a prompt, a tab and a completion.

MODEL may be the word `bytes`, for models whose vocabulary are the 256 bytes: documents then end with a byte 0, and nothing else is needed.
"""
# SPDX-License-Identifier: Apache-2.0
import array
import json
import pathlib
import struct
import sys

LEARNED = 1 << 31
FIELDS = ["messages", "prompt", "completion", "text"]
WANTED = 'has neither "messages", nor "prompt" and "completion", nor "text"'


class Bytes:
    """A tokenizer whose tokens are bytes."""

    size, end = 256, [0]

    def numbers(self, text, begins=False):
        return list(text.encode())

    def text(self, numbers):
        return bytes(numbers).decode(errors="replace")


class HuggingFace:
    def __init__(self, folder):
        from tokenizers import Tokenizer

        self.folder = folder
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # What a training script has left there: transformers overrules it at every call.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.size = self.tokenizer.get_vocab_size()
        config = folder / "config.json"
        end = json.loads(config.read_text()).get("eos_token_id") if config.exists() else None
        self.end = [] if end is None else end[:1] if isinstance(end, list) else [end]

    def numbers(self, text, begins=False):
        """`begins`: with what the model has before a text."""
        return self.tokenizer.encode(text, add_special_tokens=begins).ids

    def text(self, numbers):
        return self.tokenizer.decode(numbers)

    def chat(self, messages, to_be_answered=False):
        from transformers import AutoTokenizer

        if not hasattr(self, "template"):
            self.template = AutoTokenizer.from_pretrained(self.folder)
        return list(
            self.template.apply_chat_template(messages, add_generation_prompt=to_be_answered, return_dict=False)
        )


def tokenizer_of(model):
    return Bytes() if model == "bytes" else HuggingFace(pathlib.Path(model))


def little_endian(code, numbers):
    values = array.array(code, numbers)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def lines_of(file):
    """Of a text in UTF-8, a byte order mark or not; a line ends with a line feed alone, for JSON may have the others in a text."""
    try:
        text = pathlib.Path(file).read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{file}: cannot be read as UTF-8: {error}")
    return [line.removesuffix("\r") for line in text.split("\n")]


def encode(tokenizer, output, *files):
    size = 2 if tokenizer.size <= 1 << 16 else 4
    count = 0
    with open(output, "wb") as out:
        for file in files:
            text = pathlib.Path(file).read_text(encoding="utf-8", errors="replace")
            ids = tokenizer.numbers(text) + tokenizer.end
            out.write(little_endian("H" if size == 2 else "I", ids))
            count += len(ids)
    print(f"{count} tokens in {output}: data: {{kind: tokens, files: [{output}], token_bytes: {size}}}")


def learned(ids):
    return [token | LEARNED for token in ids]


def of_chat(tokenizer, messages):
    """What an answer adds to the chat up to it is learned."""
    if isinstance(tokenizer, Bytes):
        raise ValueError("bytes have no chat template: use prompt and completion")
    marked = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = tokenizer.chat(messages[:i], to_be_answered=True)
        after = tokenizer.chat(messages[: i + 1])
        if after[: len(before)] != before or before[: len(marked)] != [token & ~LEARNED for token in marked]:
            raise ValueError(f"the chat template changes what is before message {i}: which of its tokens are learned is not known")
        marked += before[len(marked) :] + learned(after[len(before) :])
    return marked


def fields_of(line, is_table):
    if not is_table:
        return json.loads(line)
    fields = line.split("\t")
    if len(fields) != 2:
        raise ValueError(f"has {len(fields)} fields between tabs, must have 2: a prompt and a completion")
    return {"prompt": fields[0], "completion": fields[1]}


def document(tokenizer, line):
    if not isinstance(line, dict) or not all(line.get(name, "") is not None for name in FIELDS):
        raise ValueError(WANTED)
    if "messages" in line:
        return of_chat(tokenizer, line["messages"])
    if "prompt" in line and "completion" in line:
        prompt = tokenizer.numbers(line["prompt"], begins=True)
        return prompt + learned(tokenizer.numbers(line["completion"]) + tokenizer.end)
    if "text" in line:
        return learned(tokenizer.numbers(line["text"], begins=True) + tokenizer.end)
    raise ValueError(WANTED)


def documents(tokenizer, output, *files):
    ends, tokens = [], array.array("I")
    for file in files:
        for number, line in enumerate(lines_of(file), 1):
            if not line.strip():
                continue
            try:
                tokens.extend(document(tokenizer, fields_of(line, file.endswith(".tsv"))))
            except Exception as error:  # whatever a chat template raises, too
                sys.exit(f"{file}:{number}: {error}")
            if ends[-1:] == [len(tokens)] or not tokens:
                sys.exit(f"{file}:{number}: has no tokens")
            ends.append(len(tokens))
    if not ends:
        sys.exit(f"{', '.join(files)}: no document in there, nothing is written")
    with open(output, "wb") as out:
        out.write(b"trireme-tokens/1" + struct.pack("<2Q32x", len(ends), len(tokens)))
        out.write(little_endian("Q", ends) + little_endian("I", tokens))
    count = sum(token >= LEARNED for token in tokens)
    print(f"{len(ends)} documents of {len(tokens)} tokens, {count} learned, in {output}: data: {{kind: documents, files: [{output}]}}")


def numbers(tokenizer, text):
    print(",".join(map(str, tokenizer.numbers(text, begins=True))))


def text(tokenizer, ids):
    print(tokenizer.text([int(i) for i in ids.split(",")]))


if __name__ == "__main__":
    verbs = {"encode": encode, "documents": documents, "numbers": numbers, "text": text}
    takes_files = sys.argv[1:2] in (["encode"], ["documents"])
    if len(sys.argv) < 4 + takes_files or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    if takes_files and sys.argv[3] in sys.argv[4:]:
        sys.exit(f"{sys.argv[3]}: is OUTPUT and one of the files that are read")
    verbs[sys.argv[1]](tokenizer_of(sys.argv[2]), *sys.argv[3:])
