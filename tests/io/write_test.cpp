// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/node.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace trireme::io {
namespace {

const std::vector<std::string> kTexts{"",
                                      "a",
                                      "a b",
                                      "true",
                                      "null",
                                      "~",
                                      "5",
                                      "1e3",
                                      "-",
                                      "-x",
                                      "a: b",
                                      "a #b",
                                      "#a",
                                      "[x]",
                                      "{x}",
                                      "*.txt",
                                      "&a",
                                      "!a",
                                      "%a",
                                      "@a",
                                      "\"",
                                      "'",
                                      "\\",
                                      "a\nb",
                                      "\t",
                                      "yes",
                                      "No",
                                      "0x1f",
                                      ".5",
                                      "/a/b.c",
                                      "a\x1b[0m",
                                      "gr\xC3\xBC\xC3\x9F",
                                      " a",
                                      "a ",
                                      "? a",
                                      "- a",
                                      "a:",
                                      ":",
                                      "...",
                                      "---",
                                      "2GiB",
                                      "80%",
                                      std::string("a\0b", 3)};

TEST(YamlText, ReadsBackAsTheSameText) {
  for (const std::string& text : kTexts) {
    EXPECT_EQ(parse("v: " + yaml_text(text), "a.yaml").find("v")->text(), text) << text;
    EXPECT_EQ(parse("[" + yaml_text(text) + ", x]", "a.yaml").list()[0].text(), text) << text;
    EXPECT_EQ(parse(yaml_text(text) + ": x", "a.yaml").entries()[0].first, text) << text;
  }
}

TEST(YamlText, InQuotesIsJsonToo) {
  for (const std::string& text : kTexts)
    EXPECT_EQ(parse("{\"v\": " + json_text(text) + "}", "a.json").find("v")->text(), text) << text;
}

TEST(YamlText, LeavesPlainWordsBare) {
  EXPECT_EQ(yaml_text("adamw"), "adamw");
  EXPECT_EQ(yaml_text("runs/quick-start_1.5"), "runs/quick-start_1.5");
  EXPECT_EQ(yaml_text("on"), "\"on\"");
  EXPECT_EQ(yaml_text("12"), "\"12\"");
}

TEST(YamlText, ReadsBackForRandomBytesOfText) {
  std::mt19937 random(7);
  const std::string alphabet = "ab1-:#[]{},&*!|>'\"%@`\\ \n\t.?~/\x01\x7f_";
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n)
      text.push_back(alphabet[random() % alphabet.size()]);
    EXPECT_EQ(parse("v: " + yaml_text(text), "a.yaml").find("v")->text(), text);
  }
}

TEST(ToYaml, WritesBlocksAndShortLists) {
  const Node node =
      parse("{a: 5, b: [1, x y], c: {d: {}, e: [], f: ~}, g: [{h: 1, i: [[2]]}, '5']}", "a.yaml");
  EXPECT_EQ(node.to_yaml(),
            "a: 5\n"
            "b: [1, \"x y\"]\n"
            "c:\n"
            "  d: {}\n"
            "  e: []\n"
            "  f: null\n"
            "g:\n"
            "  -\n"
            "    h: 1\n"
            "    i:\n"
            "      - [2]\n"
            "  - \"5\"\n");
}

TEST(ToYaml, ReadsBackAsTheSameDocument) {
  for (const char* text :
       {"a: 5", "[1, [2, {a: b}], {}]", "x", "'5'", "5", "-1.5e3", "~", "a: |\n  two\n  lines\n",
        "'a: b': [\"c # d\", 'true', true]", "a: plain, with [brackets]"}) {
    const std::string once = parse(text, "a.yaml").to_yaml();
    EXPECT_EQ(parse(once, "a.yaml").to_yaml(), once) << text;
  }
}

TEST(ToYaml, KeepsNumbersNumbersAndTextText) {
  const Node node = parse("n: 1e-3\ns: '1e-3'\nb: false\n", "a.yaml");
  const Node again = parse(node.to_yaml(), "a.yaml");

  EXPECT_EQ(again.find("n")->number(0, 1), 1e-3);
  EXPECT_EQ(again.find("s")->found(), "\"1e-3\"");
  EXPECT_FALSE(again.find("b")->boolean());
}

}  // namespace
}  // namespace trireme::io
