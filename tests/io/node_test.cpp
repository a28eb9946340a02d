// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/node.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/error.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace trireme::io {
namespace {

using support::input_error;
using testing::ElementsAre;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The value of "v: TEXT".
Node value(const std::string& text) {
  return *parse("# a comment\nv: " + text + "\n", "a.yaml").find("v");
}

TEST(Node, ReadsScalarsOfEveryType) {
  EXPECT_EQ(value("hello world").text(), "hello world");
  EXPECT_EQ(value("\"a\\tb\"").text(), "a\tb");
  EXPECT_EQ(value("''").text(), "");
  EXPECT_EQ(value("12").text(), "12");
  EXPECT_TRUE(value("true").boolean());
  EXPECT_FALSE(value("false").boolean());
  EXPECT_EQ(value("-12").integer(-12, 0), -12);
  EXPECT_EQ(value("9223372036854775807").integer(0, kMost), kMost);
  EXPECT_EQ(value("-9223372036854775808").integer(kLeast, 0), kLeast);
  EXPECT_EQ(value("6e-4").number(0, 1), 6e-4);
  EXPECT_EQ(value("1").number(0, 1), 1.0);
  EXPECT_EQ(value("2GiB").bytes(), Bytes(std::int64_t{2} << 30));
  EXPECT_EQ(value("\"2 GiB\"").bytes(), Bytes(std::int64_t{2} << 30));
  EXPECT_EQ(value("9007199254740993").bytes(), Bytes(9007199254740993));
  EXPECT_EQ(value("1.5ms").seconds(), Seconds(1.5e-3));
  EXPECT_EQ(value("60").seconds(), Seconds(60));
  EXPECT_EQ(value("b").choice({"a", "b"}), "b");
}

TEST(Node, ReadsListsAndMapsInOrder) {
  const Node node = parse("z: [1, two, [3]]\na: {y: 1, x: 2}\n", "a.yaml");

  std::vector<std::string> keys;
  for (const auto& [key, entry] : node.entries()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("z", "a"));
  const std::vector<Node> list = node.find("z")->list();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1].text(), "two");
  EXPECT_EQ(list[2].list()[0].integer(0, 9), 3);
  EXPECT_EQ(node.find("a")->find("x")->integer(0, 9), 2);
  EXPECT_FALSE(node.find("a")->find("w").has_value());
}

TEST(Node, KnowsItsPlace) {
  const Node node = parse("a:\n  b:\n    - 1\n    - c:\n        2\n", "dir/x.yaml");

  EXPECT_EQ(node.where(), "dir/x.yaml:1: the document");
  EXPECT_EQ(node.source(), "dir/x.yaml");
  EXPECT_EQ(node.key(), "");
  const Node b = *node.find("a")->find("b");
  EXPECT_EQ(b.where(), "dir/x.yaml:2: a.b");
  EXPECT_EQ(b.list()[0].where(), "dir/x.yaml:3: a.b[0]");
  EXPECT_EQ(b.list()[1].find("c")->where(), "dir/x.yaml:4: a.b[1].c");
}

TEST(Node, KnowsItsPlaceInJson) {
  const Node node = parse("{\"a\": {\n\"b\": [1,\n2\n,\n3]}}", "x.json");

  const std::vector<Node> list = node.find("a")->find("b")->list();
  EXPECT_EQ(list[0].where(), "x.json:2: a.b[0]");
  EXPECT_EQ(list[1].where(), "x.json:3: a.b[1]");
  EXPECT_EQ(list[2].where(), "x.json:5: a.b[2]");
}

TEST(Node, OutlivesTheDocumentItCameFrom) {
  const auto inner = [] { return parse("a: {b: 5}", "x.yaml").find("a")->find("b"); }();
  EXPECT_EQ(inner->integer(0, 9), 5);
}

TEST(Node, FailsWithItsPlaceOrTheNearest) {
  const Node node = parse("train:\n  batch: 3\n", "a.yaml");

  EXPECT_EQ(input_error([&] { node.find("train")->fail("is odd"); }), "a.yaml:1: train is odd");
  EXPECT_EQ(input_error([&] { node.fail_at("train.batch", "is odd"); }),
            "a.yaml:2: train.batch is odd");
  EXPECT_EQ(input_error([&] { node.fail_at("train.seed", "is odd"); }),
            "a.yaml:1: train.seed is odd");
  EXPECT_EQ(input_error([&] { node.fail_at("data.kind", "is odd"); }),
            "a.yaml:1: data.kind is odd");
}

TEST(Node, MayBeCalledByABetterName) {
  const Node layer = parse("layers:\n  - cost: {time: x}\n", "a.yaml").find("layers")->list()[0];
  const Node named = layer.called("layer 1 (embed)");

  EXPECT_EQ(named.find("cost")->find("time")->where(), "a.yaml:2: layer 1 (embed).cost.time");
  EXPECT_EQ(input_error([&] { named.fail_at("name", "is missing"); }),
            "a.yaml:2: layer 1 (embed).name is missing");
}

TEST(Load, NamesTheFile) {
  const support::TemporaryFolder folder;
  const std::string file = (folder / "a.yaml").string();
  write_file(file, "a: 1\nb: [\n");

  EXPECT_EQ(input_error([&] { load(file); }),
            file + ":2: not YAML: end of sequence flow not found");
  EXPECT_EQ(input_error([&] { load(folder.path()); }),
            folder.path().string() + ": is a folder, must be a file");
}

TEST(Load, ReadsAnEmptyFileAsAnEmptyValue) {
  for (const char* text :
       {"", "\n\n", "# nothing\n", "---\n", "...\n", "\xEF\xBB\xBF", "~", "null"})
    EXPECT_EQ(parse(text, "a.yaml").kind(), Node::Kind::kNull) << text;
  EXPECT_EQ(parse("", "a.yaml").where(), "a.yaml:1: the document");
}

struct Refusal {
  std::string text;
  std::function<void(const Node&)> read;
  std::string message;  ///< after "a.yaml:2: v is "
};

void expect_refusals(const std::vector<Refusal>& refusals) {
  for (const auto& [text, read, message] : refusals) {
    const Node node = value(text);
    EXPECT_EQ(input_error([&] { read(node); }), "a.yaml:2: v is " + message);
  }
}

const auto as_text = [](const Node& node) { node.text(); };
const auto as_bool = [](const Node& node) { node.boolean(); };
const auto as_integer = [](const Node& node) { node.integer(1, 100); };
const auto as_number = [](const Node& node) { node.number(0, 0.9); };
const auto as_bytes = [](const Node& node) { node.bytes(); };
const auto as_seconds = [](const Node& node) { node.seconds(); };
const auto as_choice = [](const Node& node) { node.choice({"gpt", "mlp"}); };
const auto as_list = [](const Node& node) { node.list(); };
const auto as_map = [](const Node& node) { node.entries(); };

TEST(Node, RefusesOtherThingsThanText) {
  expect_refusals({Refusal{"[1]", as_text, "a list, must be text"},
                   Refusal{"{a: 1}", as_text, "a map, must be text"},
                   Refusal{"", as_text, "empty, must be text"},
                   Refusal{"~", as_text, "empty, must be text"}});
}

TEST(Node, RefusesOtherWordsThanTrueAndFalse) {
  expect_refusals({Refusal{"yes", as_bool, "yes, must be true or false"},
                   Refusal{"True", as_bool, "True, must be true or false"},
                   Refusal{"1", as_bool, "1, must be true or false"},
                   Refusal{"\"true\"", as_bool, "\"true\", must be true or false"},
                   Refusal{"", as_bool, "empty, must be true or false"},
                   Refusal{"[true]", as_bool, "a list, must be true or false"}});
}

TEST(Node, RefusesWhatIsNoWholeNumberInRange) {
  expect_refusals({Refusal{"0", as_integer, "0, must be a whole number from 1 to 100"},
                   Refusal{"101", as_integer, "101, must be a whole number from 1 to 100"},
                   Refusal{"5.0", as_integer, "5.0, must be a whole number from 1 to 100"},
                   Refusal{"1e1", as_integer, "1e1, must be a whole number from 1 to 100"},
                   Refusal{"+5", as_integer, "+5, must be a whole number from 1 to 100"},
                   Refusal{"05", as_integer, "05, must be a whole number from 1 to 100"},
                   Refusal{"0x5", as_integer, "0x5, must be a whole number from 1 to 100"},
                   Refusal{"0o5", as_integer, "0o5, must be a whole number from 1 to 100"},
                   Refusal{"1_0", as_integer, "1_0, must be a whole number from 1 to 100"},
                   Refusal{"5x", as_integer, "5x, must be a whole number from 1 to 100"},
                   Refusal{"5 6", as_integer, "5 6, must be a whole number from 1 to 100"},
                   Refusal{"\"5\"", as_integer, "\"5\", must be a whole number from 1 to 100"},
                   Refusal{"'5'", as_integer, "\"5\", must be a whole number from 1 to 100"},
                   Refusal{"99999999999999999999", as_integer,
                           "99999999999999999999, must be a whole number from 1 to 100"},
                   Refusal{"", as_integer, "empty, must be a whole number from 1 to 100"},
                   Refusal{"[5]", as_integer, "a list, must be a whole number from 1 to 100"},
                   Refusal{"x", [](const Node& node) { node.integer(3, kMost); },
                           "x, must be a whole number of at least 3"},
                   Refusal{"x", [](const Node& node) { node.integer(kLeast, kMost); },
                           "x, must be a whole number"}});
}

TEST(Node, RefusesWhatIsNoNumberInRange) {
  expect_refusals({Refusal{"1", as_number, "1, must be a number from 0 to 0.9"},
                   Refusal{"-0.1", as_number, "-0.1, must be a number from 0 to 0.9"},
                   Refusal{"nan", as_number, "nan, must be a number from 0 to 0.9"},
                   Refusal{".nan", as_number, ".nan, must be a number from 0 to 0.9"},
                   Refusal{"inf", as_number, "inf, must be a number from 0 to 0.9"},
                   Refusal{".inf", as_number, ".inf, must be a number from 0 to 0.9"},
                   Refusal{"1e999", as_number, "1e999, must be a number from 0 to 0.9"},
                   Refusal{"0x1p-3", as_number, "0x1p-3, must be a number from 0 to 0.9"},
                   Refusal{"0.5 s", as_number, "0.5 s, must be a number from 0 to 0.9"},
                   Refusal{"0,5", as_number, "0,5, must be a number from 0 to 0.9"},
                   Refusal{"\"0.5\"", as_number, "\"0.5\", must be a number from 0 to 0.9"},
                   Refusal{"-1", [](const Node& node) { node.number(0, kInfinity); },
                           "-1, must be a number of at least 0"},
                   Refusal{"x", [](const Node& node) { node.number(-kInfinity, kInfinity); },
                           "x, must be a number"}});
}

TEST(Node, RefusesWhatIsNoSizeOrTime) {
  expect_refusals(
      {Refusal{"-1", as_bytes, "-1, must be a size such as 2GiB or 4096 (bytes)"},
       Refusal{"2Gb", as_bytes,
               "2Gb, must be a size such as 2GiB or 4096 (bytes) (did you mean '2GiB'?)"},
       Refusal{"", as_bytes, "empty, must be a size such as 2GiB or 4096 (bytes)"},
       Refusal{"[1]", as_bytes, "a list, must be a size such as 2GiB or 4096 (bytes)"},
       Refusal{"-1s", as_seconds, "-1s, must be a time such as 1.5ms or 60 (seconds)"},
       Refusal{"1 day", as_seconds, "1 day, must be a time such as 1.5ms or 60 (seconds)"}});
}

TEST(Node, RefusesOtherStructure) {
  expect_refusals(
      {Refusal{"gp", as_choice, "gp, must be one of gpt, mlp (did you mean 'gpt'?)"},
       Refusal{"transformer", as_choice, "transformer, must be one of gpt, mlp"},
       Refusal{"", as_choice, "empty, must be one of gpt, mlp"},
       Refusal{"[gpt]", as_choice, "a list, must be one of gpt, mlp"},
       Refusal{"x", [](const Node& node) { node.choice({"y"}); }, "x, must be y"},
       Refusal{"5", as_list, "5, must be a list"}, Refusal{"", as_list, "empty, must be a list"},
       Refusal{"[1]", as_map, "a list, must be a map (key: value)"},
       Refusal{"5", [](const Node& node) { node.find("a"); }, "5, must be a map (key: value)"}});
}

TEST(Node, ShowsFoundTextShortAndPrintable) {
  expect_refusals(
      {Refusal{std::string(100, 'x'), as_bool, std::string(60, 'x') + "..., must be true or false"},
       Refusal{"\"a\\x1b[31mb\\0\"", as_bool, "\"a\\u001b[31mb\\u0000\", must be true or false"}});
}

}  // namespace
}  // namespace trireme::io
