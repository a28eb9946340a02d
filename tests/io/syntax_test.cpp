// Malformed documents: each kind of fault has a message with its line.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/io/node.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::io {
namespace {

using support::input_error;

struct Broken {
  std::string text;
  std::string message;
};

void expect_refusals_of_yaml(const std::vector<Broken>& documents) {
  for (const auto& [text, message] : documents)
    EXPECT_EQ(input_error([&] { parse(text, "a.yaml"); }), "a.yaml:" + message) << text;
}

const std::string kAnchors =
    "anchors and aliases (&, *) are not supported: write it out, or put text in quotes";

TEST(Syntax, RefusesYamlCutInHalf) {
  expect_refusals_of_yaml(
      {Broken{"a: 1\nb: [1, 2", "2: not YAML: end of sequence flow not found"},
       Broken{"a: 1\nb: {c: 1,\n", "2: not YAML: end of map flow not found"},
       Broken{"a: \"text", "1: not YAML: illegal EOF in scalar"},
       Broken{"a: 'text\n", "1: not YAML: illegal EOF in scalar"},
       Broken{"a: 1\nbatch", "2: not YAML: end of map not found"},
       Broken{"{\"a\": {\"b\": 1}",
              "1: a key must be a word, not empty, a list or a map (or a bracket is not closed)"}});
}

TEST(Syntax, RefusesBrokenStructure) {
  expect_refusals_of_yaml(
      {Broken{"a: b: c", "1: not YAML: illegal map value"},
       Broken{"a: 1\n}", "2: not YAML: illegal flow end"},
       Broken{"a: [1}", "1: not YAML: illegal flow end"},
       Broken{"a: @x", "1: not YAML: unknown token"},
       Broken{"a: 1\na: 2\n", "2: a appears twice (first in line 1)"},
       Broken{"a:\n- 1\n- b: {c: 1, d: 2,\n      c: 3}\n",
              "4: a[1].b.c appears twice (first in line 3)"},
       Broken{"? [a]\n: 1\n",
              "1: a key must be a word, not empty, a list or a map (or a bracket is not closed)"},
       Broken{"a: 1\n: 2\n",
              "2: a key must be a word, not empty, a list or a map (or a bracket is not closed)"},
       Broken{"~: 2\n",
              "1: a key must be a word, not empty, a list or a map (or a bracket is not closed)"},
       Broken{"a: 1\n---\nb: 2\n", "2: something follows the end of the document"},
       Broken{"a: 1\n...\nb: 2\n", "3: something follows the end of the document"},
       Broken{"{a: 1} trailing", "1: something follows the end of the document"},
       Broken{"{\"a\": 1}\n{\"a\": 1}", "2: something follows the end of the document"}});
}

TEST(Syntax, NamesTheTabThatALineIsIndentedWith) {
  const std::string tab = "the line is indented with a tab, YAML takes spaces alone";
  expect_refusals_of_yaml({{"a:\n\tb: 1\n", "2: " + tab},
                           {"a:\n  b: 1\n\n \t c: 2\n", "4: " + tab},
                           {"a:\n\t- 1\n", "2: " + tab},
                           {"a: 1\n\tb: 2\n", "2: " + tab},
                           {"a: {b: 1,\n\tc: 2}\nd: e: f\n", "3: not YAML: illegal map value"}});
  EXPECT_EQ(parse("a: {b: 1,\n\tc: 2}\nd:\t3\n", "a.yaml").find("a")->find("c")->text(), "2");
}

TEST(Syntax, RefusesAnchorsAndTags) {
  expect_refusals_of_yaml(
      {Broken{"a: &x 1\nb: *x\n", "1: " + kAnchors},
       Broken{"a: 1\nb: [*x]\n", "2: not YAML: the referenced anchor is not defined"},
       Broken{"a: !!str 5\n",
              "1: tags (tag:yaml.org,2002:str) are not supported: put text in quotes"},
       Broken{"!2 x", "1: tags (!2) are not supported: put text in quotes"},
       Broken{"a: !!binary [1]\n",
              "1: tags (tag:yaml.org,2002:binary) are not supported: put text in quotes"},
       Broken{"%YAML 3.0\n---\na: 1\n", "1: not YAML: YAML major version too large"}});
}

TEST(Syntax, RefusesWhatIsNoText) {
  expect_refusals_of_yaml(
      {Broken{std::string("a: 1\nb\0", 7), "2: not a text: holds control character 0"},
       Broken{"a: 1\x04 b: [", "1: not a text: holds control character 4"},
       Broken{"\x7f"
              "ELF",
              "1: not a text: holds control character 127"},
       Broken{"\x89PNG\r\n", "1: not a text in UTF-8"},
       Broken{"a: 1\n\xC3\x28", "2: not a text in UTF-8"},
       Broken{"\xC0\xAF", "1: not a text in UTF-8"},          // overlong
       Broken{"\xE0\x80\xAF", "1: not a text in UTF-8"},      // overlong
       Broken{"\xED\xA0\x80", "1: not a text in UTF-8"},      // half of a surrogate pair
       Broken{"\xF0\x80\x80\xAF", "1: not a text in UTF-8"},  // overlong
       Broken{"\xF4\x90\x80\x80", "1: not a text in UTF-8"},  // beyond U+10FFFF
       Broken{"\xE2\x82", "1: not a text in UTF-8"},          // cut in half
       Broken{std::string("\xFF\xFE"
                          "a\0:\0",
                          6),
              "1: not a text in UTF-8"}});
}  // UTF-16

void expect_refusals_of_json(const std::vector<Broken>& documents) {
  for (const auto& [text, message] : documents)
    EXPECT_EQ(input_error([&] { parse(text, "a.json"); }), "a.json:" + message) << text;
}

TEST(Syntax, RefusesBrokenJson) {
  expect_refusals_of_json(
      {Broken{"", "1: not JSON: syntax error while parsing value - unexpected end of input"},
       Broken{"{\n",
              "1: not JSON: syntax error while parsing object key - unexpected end of input"},
       Broken{"{\"a\": 1} x", "1: not JSON: syntax error while parsing value - invalid literal"},
       Broken{"{\"a\": 1,}", "1: not JSON: syntax error while parsing object key - unexpected '}'"},
       Broken{"{\"a\":\n NaN}", "2: not JSON: syntax error while parsing value - invalid literal"},
       Broken{"{\"a\": 1,\n\"b\": 1,\n\"a\": 2}", "3: a appears twice (first in line 1)"},
       Broken{"a: 1", "1: not JSON: syntax error while parsing value - invalid literal"}});
}

TEST(Syntax, RefusesEscapesThatMakeNoCharacter) {
  expect_refusals_of_yaml(
      {{"a: \"\\N\"", "1: a text in quotes with an escape that is not read"},
       {"a: 1\nb: \"x\\_\"", "2: a text in quotes with an escape that is not read"},
       {"a: \"\\ud800\"", "1: not YAML: invalid unicode: 55296"},
       {"a: \"\\q\"", "1: not YAML: unknown escape character: q"}});
}

TEST(Syntax, UnicodeIsReadAsItIs) {
  EXPECT_EQ(
      parse("a: gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x9A\xA3\n", "a.yaml").find("a")->text(),
      "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x9A\xA3");
  EXPECT_EQ(parse("{\"a\": \"\\ud83d\\udea3\"}", "a.json").find("a")->text(), "\xF0\x9F\x9A\xA3");
}

TEST(Syntax, AByteOrderMarkAndForeignLineEndsAreFine) {
  const Node node = parse(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: 2\r\n",
      "a.yaml");
  EXPECT_EQ(node.find("b")->integer(0, 9), 2);
  EXPECT_EQ(node.find("b")->where(), "a.yaml:2: b");
}

TEST(Syntax, JsonIsReadWhateverTheFileIsCalled) {
  // A flow list that begins a document is JSON when it can be: then it may be of any length.
  std::string text = "{\"a\": [[0";
  for (int i = 0; i < 600'000; ++i) text += ", 1";
  EXPECT_EQ(parse(text + "]]}", "stdin").find("a")->list()[0].list().size(), 600'001U);
}

}  // namespace
}  // namespace trireme::io
