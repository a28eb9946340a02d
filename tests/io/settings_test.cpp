// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/io/node.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::io {
namespace {

using support::input_error;

Node document() {
  return parse("train:\n  steps: 300\n  optimizer: {kind: adamw}\nfiles: [a, b]\n", "a.yaml");
}

TEST(WithSetting, ReplacesAValueAndKeepsTheOthers) {
  const Node node = with_setting(document(), "train.steps=7");

  EXPECT_EQ(node.find("train")->find("steps")->integer(0, 9), 7);
  EXPECT_EQ(node.to_yaml(),
            "train:\n"
            "  steps: 7\n"
            "  optimizer:\n"
            "    kind: adamw\n"
            "files: [a, b]\n");
}

TEST(WithSetting, LeavesTheOriginalAlone) {
  const Node before = document();
  with_setting(before, "train.steps=7");
  EXPECT_EQ(before.find("train")->find("steps")->integer(0, 999), 300);
}

TEST(WithSetting, SaysThatTheValueCameFromTheCommandLine) {
  const Node node = with_setting(document(), "train.steps=many");

  EXPECT_EQ(input_error([&] { node.find("train")->find("steps")->integer(1, 9); }),
            "--set train.steps is many, must be a whole number from 1 to 9");
  EXPECT_EQ(node.find("train")->where(), "a.yaml:1: train");
  EXPECT_EQ(node.find("train")->find("optimizer")->where(), "a.yaml:3: train.optimizer");
}

TEST(WithSetting, TakesWholeLists) {
  const Node node = with_setting(document(), "train.optimizer={betas: [0.9, x]}");
  const Node betas = *node.find("train")->find("optimizer")->find("betas");

  EXPECT_EQ(betas.list()[0].number(0, 1), 0.9);
  EXPECT_EQ(input_error([&] { betas.list()[1].number(0, 1); }),
            "--set train.optimizer.betas[1] is x, must be a number from 0 to 1");
}

TEST(WithSetting, AddsSectionsAndKeys) {
  const Node node =
      with_setting(with_setting(document(), "plan.solver=rotor"), "report.html=false");

  EXPECT_EQ(node.find("plan")->find("solver")->text(), "rotor");
  EXPECT_FALSE(node.find("report")->find("html")->boolean());
}

TEST(WithSetting, FillsAnEmptyDocument) {
  EXPECT_EQ(with_setting(parse("", "a.yaml"), "a.b=1").find("a")->find("b")->integer(0, 9), 1);
}

TEST(WithSetting, LaterSettingsWin) {
  const Node node = with_setting(with_setting(document(), "train.steps=1"), "train.steps=2");
  EXPECT_EQ(node.find("train")->find("steps")->integer(0, 9), 2);
}

TEST(WithSetting, LeavesUnknownKeysToTheStrictReader) {
  MapReader train(*with_setting(document(), "train.stepz=1").find("train"));
  train.optional("steps");
  train.optional("optimizer");

  EXPECT_EQ(input_error([&] { train.finish(); }),
            "--set train.stepz is not a key here (did you mean 'steps'?)");
}

TEST(WithSetting, IsNotBlamedForAKeyThatNobodySet) {
  const Node node = with_setting(document(), "checkpoint.every=5");
  EXPECT_EQ(input_error([&] { node.fail_at("checkpoint.resume", "is auto"); }),
            "a.yaml:1: checkpoint.resume is auto");
  EXPECT_EQ(input_error([&] { node.find("checkpoint")->fail_at("resume", "is auto"); }),
            "a.yaml:1: checkpoint.resume is auto");
  EXPECT_EQ(input_error([&] { node.fail_at("checkpoint.every", "is 5"); }),
            "--set checkpoint.every is 5");
  const Node alone = with_setting(parse("", "a.yaml"), "checkpoint.every=5");
  EXPECT_EQ(input_error([&] { alone.fail_at("model.kind", "is missing"); }),
            "a.yaml:1: model.kind is missing");
}

TEST(WithSetting, TakesAnEmptyValue) {
  EXPECT_EQ(with_setting(document(), "files=").find("files")->kind(), Node::Kind::kNull);
}

TEST(WithSetting, MayHoldAnEqualsSign) {
  EXPECT_EQ(with_setting(document(), "a=b=c").find("a")->text(), "b=c");
}

struct BadSetting {
  std::string setting;
  std::string message;
};

void expect_refusals(const std::vector<BadSetting>& settings) {
  for (const auto& [setting, message] : settings)
    EXPECT_EQ(input_error([&] { with_setting(document(), setting); }), message);
}

TEST(WithSetting, NamesTheSettingThatItRefuses) {
  expect_refusals(
      {BadSetting{"train.steps", "--set train.steps: must be section.key=value"},
       BadSetting{"=5", "--set : the key must be words joined by dots"},
       BadSetting{"train..steps=5", "--set train..steps: the key must be words joined by dots"},
       BadSetting{"files[0]=x", "--set files[0]: the key must be words joined by dots"},
       BadSetting{"train.steps.x=5", "--set train.steps.x: steps is not a map (key: value)"},
       BadSetting{"files.x=5", "--set files.x: files is not a map (key: value)"},
       BadSetting{"a=[1",
                  "--set a: a key must be a word, not empty, a list or a map (or a bracket is not "
                  "closed)"},
       BadSetting{"a=\"x", "--set a: not YAML: illegal EOF in scalar"},
       BadSetting{"a=*.txt", "--set a: not YAML: the referenced anchor is not defined"},
       BadSetting{"a={b: 1, b: 2}", "--set a: b appears twice"},
       BadSetting{std::string("a=\0", 3), "--set a: not a text: holds control character 0"},
       BadSetting{"a=\xFF", "--set a: not a text in UTF-8"}});
}

TEST(WithSetting, RefusesAKeyWithoutEnd) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  EXPECT_EQ(input_error([&] { with_setting(document(), key + "=1"); }),
            "--set " + key.substr(0, 60) + "...: the key is nested too deeply");
}

TEST(WithSetting, RefusesToReplaceAListDocument) {
  EXPECT_EQ(input_error([] { with_setting(parse("[1]", "a.yaml"), "a=1"); }),
            "--set a: the document is not a map (key: value)");
}

}  // namespace
}  // namespace trireme::io
