#!/usr/bin/env python3
"""Text to tokens and back, with the tokenizer of a model from Hugging Face (its folder has a tokenizer.json).

    tokens.py encode MODEL OUTPUT FILE...      all files as one list of little-endian uint16 or uint32, for data.kind: tokens
    tokens.py documents MODEL OUTPUT FILE...   a document per line, which says what of it is learned, for data.kind: documents
    tokens.py numbers MODEL TEXT               for trireme generate --prompt-tokens, with what the model has before a text
    tokens.py text MODEL 464,2068,...          what generate printed

Needs tokenizers. In OUTPUT every file or document ends with the model's end-of-text token, once: the one that its config.json names, or else what its
tokenizer puts after a text. Files are UTF-8; no byte of them is changed. A line is one of these, in JSON,

    {"prompt": TEXT, "completion": TEXT}       the completion is learned
    {"messages": [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}, ...]}
                                               what the assistant says is learned; needs transformers, for the model's chat template
    {"text": TEXT}                             all of it is learned

or, in a file named *.tsv, a prompt, a tab and a completion. Prompt and completion are encoded as one text; a token with characters of both is learned.
The name of a special token in a text, such as </s>, becomes that token, as in transformers.

MODEL may be the word `bytes`, for models whose vocabulary are the 256 bytes: documents then end with a byte 0, and nothing else is needed.

Exit codes: 0, 2 for wrong use or input, 130 when interrupted. OUTPUT appears as a whole or not at all.
"""
# SPDX-License-Identifier: Apache-2.0
import array
import codecs
import contextlib
import json
import os
import pathlib
import struct
import sys

LEARNED = 1 << 31
FIELDS = ["messages", "prompt", "completion", "text"]
WANTED = 'has neither "messages", nor "prompt" and "completion", nor "text"'
# Of encode, in characters: how much text is encoded at a time, and over how much of it two encodings must agree.
BLOCK, AGREE = 1 << 18, 1 << 10


class WrongInput(Exception):
    """What is told to the user in one line."""


class Bytes:
    """A tokenizer whose tokens are bytes."""

    size, end, front = 256, [0], []

    def pieces(self, text):
        """(token, first character, character after its last) of every token."""
        return [(byte, i, i + 1) for i, c in enumerate(text) for byte in c.encode()]

    def file(self, name):
        """Tokens of a file, in lists."""
        with open(name, "rb") as file:
            while block := file.read(BLOCK):
                yield list(block)

    def text(self, numbers):
        return bytes(numbers).decode(errors="replace")


class HuggingFace:
    def __init__(self, folder):
        tokenizers = package("tokenizers")
        self.folder, file = folder, folder / "tokenizer.json"
        if not file.is_file():
            raise WrongInput(f"{file}: is no file; MODEL must be a folder with a tokenizer.json, or the word bytes")
        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:
            raise WrongInput(f"{file}: is no tokenizer that can be read: {error}") from None
        self.size = max(self.tokenizer.get_vocab().values(), default=0) + 1
        self.encoder = plain(self.tokenizer)
        self.front, after = self.around()
        self.end = self.end_of_text(folder / "config.json")
        if self.end is None:
            self.end = after[:1]

    def around(self):
        """What the tokenizer puts before and after a text."""
        for probe in ("a", "0", "."):
            self.tokenizer.no_truncation()
            self.tokenizer.no_padding()
            encoding = self.tokenizer.encode(probe)
            places = [i for i, added in enumerate(encoding.special_tokens_mask) if not added]
            if places:
                return encoding.ids[: places[0]], encoding.ids[places[-1] + 1 :]
        return [], []

    @staticmethod
    def end_of_text(config):
        """None: the file does not say."""
        if not config.exists():
            return None
        try:
            end = json.loads(config.read_text(encoding="utf-8")).get("eos_token_id")
        except (ValueError, AttributeError) as error:
            raise WrongInput(f"{config}: is not JSON as a config.json: {error}") from None
        numbers = end if isinstance(end, list) else [] if end is None else [end]
        if not all(type(number) is int and 0 <= number < LEARNED for number in numbers):
            raise WrongInput(f"{config}: eos_token_id is {end!r}, must be the number of a token, or a list of them")
        return numbers[:1] or None

    def pieces(self, text, encoder=None):
        encoding = (encoder or self.encoder).encode(text, add_special_tokens=False)
        return [(token, first, end) for token, (first, end) in zip(encoding.ids, encoding.offsets)]

    def file(self, name):
        return tokens_in_blocks(self.pieces, text_of_file(name))

    def text(self, numbers):
        return self.tokenizer.decode(numbers)

    def chat(self, messages, to_be_answered=False):
        """The text of a chat."""
        if not hasattr(self, "template"):
            self.template = package("transformers").AutoTokenizer.from_pretrained(self.folder)
            if not getattr(self.template, "is_fast", False):
                raise ValueError("the model's tokenizer does not say which characters a token is made of (a slow one)")
            self.chat_encoder = plain(self.template.backend_tokenizer)
        return self.template.apply_chat_template(messages, add_generation_prompt=to_be_answered, tokenize=False)

    def chat_pieces(self, text):
        return self.pieces(text, self.chat_encoder)


def package(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise WrongInput(f"the Python package {name} is needed ({error}): pip install {name}") from None


def plain(tokenizer):
    """The tokenizer without what it adds around a text, trims off a token's offsets, cuts off or fills up."""
    parts = json.loads(tokenizer.to_str())
    parts.update(post_processor=None, truncation=None, padding=None)
    return type(tokenizer).from_str(json.dumps(parts))


def tokenizer_of(model):
    return Bytes() if model == "bytes" else HuggingFace(pathlib.Path(model))


def text_of_file(name):
    """The text of a file in UTF-8, as it stands, in parts."""
    decoder, place = codecs.getincrementaldecoder("utf-8")(), 0
    with open(name, "rb") as file:
        while True:
            block = file.read(BLOCK)
            kept = len(decoder.getstate()[0])
            try:
                yield decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise WrongInput(f"{name}: byte {place - kept + error.start} is no UTF-8: {error.reason}") from None
            if not block:
                return
            place += len(block)


def tokens_in_blocks(pieces, parts):
    """The tokens of a text that comes in parts, in lists; together they are those of the whole text.

    A block's last tokens are taken from the next block, which begins before them. The border is where both blocks have the same tokens over AGREE
    characters on either side; where there is no such place the block grows, at most to the whole text.
    """
    text, known, size, has_more = "", 0, BLOCK, True  # known: so much of `text` is lead-in, the tokens of which are written
    while has_more or len(text) > known:
        while has_more and len(text) < size:
            part = next(parts, None)
            has_more = part is not None
            text += part or ""
        here = pieces(text)
        if known:
            here = here[next(i for i, piece in enumerate(here) if piece[1] >= known) :]
        if not has_more:
            yield [token for token, _, _ in here]
            return
        border, lead = agreeing(pieces, text, here, known)
        if border is None:
            size = 2 * len(text)
            continue
        yield [token for token, _, end in here if end <= border]
        text, known, size = text[border - lead :], lead, BLOCK + lead


def agreeing(pieces, text, here, known):
    """Where `text` can be cut, and how many characters before that the next block begins; (None, None): nowhere."""
    for lead in (2 * AGREE, 8 * AGREE):
        middle = len(text) - 4 * AGREE
        start = middle - lead
        if start < known:
            break
        there = [(token, first + start, end + start) for token, first, end in pieces(text[start:])]

        def near(all_pieces):
            return [piece for piece in all_pieces if piece[1] >= middle - AGREE and piece[2] <= middle + AGREE]

        common = near(here)
        if not common or common != near(there):
            continue
        for before, after in zip(common, common[1:]):
            is_border = before[2] <= after[1] and before[2] >= middle
            if is_border and all(p[2] <= before[2] or p[1] >= after[1] for p in here):
                return after[1], after[1] - start
    return None, None


def little_endian(code, numbers):
    values = array.array(code, numbers)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


@contextlib.contextmanager
def written(output):
    """A file that takes the place of `output` once it is whole."""
    target = os.path.realpath(output)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as out:  # a device or a pipe; a folder is refused here
            yield out
        return
    draft = f"{target}.{os.getpid()}.draft"
    try:
        with open(draft, "xb") as out:
            yield out
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def lines_of(file):
    """Of a text in UTF-8, a byte order mark or not; a line ends with a line feed alone, for JSON may have the others in a text."""
    text = "".join(text_of_file(file)).removeprefix("\ufeff")
    return [line.removesuffix("\r") for line in text.split("\n")]


def encode(tokenizer, output, *files):
    size = 2 if tokenizer.size <= 1 << 16 else 4
    count = 0
    with written(output) as out:
        for file in files:
            for ids in tokenizer.file(file):
                out.write(little_endian("H" if size == 2 else "I", ids))
                count += len(ids)
            out.write(little_endian("H" if size == 2 else "I", tokenizer.end))
            count += len(tokenizer.end)
    print(f"{count} tokens in {output}: data: {{kind: tokens, files: [{output}], token_bytes: {size}}}")


def learned_from(pieces, *spans):
    """Tokens, marked where they have a character of a span (first, end)."""
    return [token | LEARNED if any(end > a and first < b for a, b in spans) else token for token, first, end in pieces]


def of_chat(tokenizer, messages):
    """What an answer adds to the chat up to it is learned."""
    if isinstance(tokenizer, Bytes):
        raise ValueError("bytes have no chat template: use prompt and completion")
    spans, text = [], ""
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = tokenizer.chat(messages[:i], to_be_answered=True)
        after = tokenizer.chat(messages[: i + 1])
        if not after.startswith(before) or not before.startswith(text):
            raise ValueError(f"the chat template changes what is before message {i}: which of its tokens are learned is not known")
        spans.append((len(before), len(after)))
        text = after
    if not spans:
        raise ValueError('no message is of the role "assistant": nothing is learned')
    return learned_from(tokenizer.chat_pieces(text), *spans)


def of_texts(tokenizer, prompt, completion):
    """Encoded as one text, which ends once."""
    for text in (prompt, completion):
        if not isinstance(text, str):
            raise ValueError(f"{text!r} is no text: prompt, completion and text must be strings")
    text = prompt + completion
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"character {error.start} of the text is half of a surrogate pair, which is no character") from None
    pieces = tokenizer.pieces(text)
    # Without a prompt all is learned, a token of no character (a space that the tokenizer puts there) too.
    marked = learned_from(pieces, (len(prompt), len(text))) if prompt else [token | LEARNED for token, _, _ in pieces]
    end = [token | LEARNED for token in tokenizer.end]
    begin = [token | (0 if prompt else LEARNED) for token in tokenizer.front]
    return begin + marked + ([] if end and marked[-1:] == end else end)


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
        return of_texts(tokenizer, line["prompt"], line["completion"])
    if "text" in line:
        return of_texts(tokenizer, "", line["text"])
    raise ValueError(WANTED)


def documents(tokenizer, output, *files):
    ends, tokens = [], array.array("I")
    for file in files:
        for number, line in enumerate(lines_of(file), 1):
            if not line.strip():
                continue
            try:
                tokens.extend(document(tokenizer, fields_of(line, file.endswith(".tsv"))))
            except WrongInput:
                raise
            except Exception as error:  # whatever a chat template raises, too
                raise WrongInput(f"{file}:{number}: {error}") from None
            if ends[-1:] == [len(tokens)] or not tokens:
                raise WrongInput(f"{file}:{number}: has no tokens")
            ends.append(len(tokens))
    if not ends:
        raise WrongInput(f"{', '.join(files)}: no document in there, nothing is written")
    with written(output) as out:
        out.write(b"trireme-tokens/1" + struct.pack("<2Q32x", len(ends), len(tokens)))
        out.write(little_endian("Q", ends) + little_endian("I", tokens))
    count = sum(token >= LEARNED for token in tokens)
    print(f"{len(ends)} documents of {len(tokens)} tokens, {count} learned, in {output}: data: {{kind: documents, files: [{output}]}}")


def numbers(tokenizer, text):
    print(",".join(str(token) for token in tokenizer.front + [token for token, _, _ in tokenizer.pieces(text)]))


def text(tokenizer, ids):
    try:
        tokens = [int(i) for i in ids.split(",")]
        if not all(0 <= token < tokenizer.size for token in tokens):
            raise ValueError
    except ValueError:
        raise WrongInput(f"'{ids}' must be numbers of tokens from 0 to {tokenizer.size - 1} with commas between them") from None
    print(tokenizer.text(tokens))


def main(arguments):
    verbs = {"encode": encode, "documents": documents, "numbers": numbers, "text": text}
    takes_files = arguments[:1] in (["encode"], ["documents"])
    if arguments[:1] and arguments[0] in ("-h", "--help"):
        print(__doc__)
        return
    fits = len(arguments) >= 4 if takes_files else len(arguments) == 3
    if not fits or arguments[0] not in verbs:
        raise WrongInput(f"wrong use\n\n{__doc__}")
    for file in arguments[3:] if takes_files else []:
        if os.path.realpath(file) == os.path.realpath(arguments[2]):
            raise WrongInput(f"{file}: is OUTPUT and one of the files that are read")
    verbs[arguments[0]](tokenizer_of(arguments[1]), *arguments[2:])
    sys.stdout.flush()


if __name__ == "__main__":
    code = 2
    try:
        main(sys.argv[1:])
        code = 0
    except WrongInput as error:
        print(f"tokens.py: {error}", file=sys.stderr)
    except BrokenPipeError:
        code = 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python's own flush at the end is silent
    except OSError as error:
        print(f"tokens.py: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
        print("tokens.py: interrupted, nothing is written", file=sys.stderr)
    sys.exit(code)
