// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/io/node.h"

#include <gtest/gtest.h>

namespace trireme::io {
namespace {

using support::input_error;

TEST(MapReader, AcceptsAMapOfWhichEveryKeyWasAskedFor) {
  MapReader map(parse("a: 1\nb: 2\n", "a.yaml"));

  EXPECT_EQ(map.required("a").integer(0, 9), 1);
  EXPECT_TRUE(map.optional("b").has_value());
  EXPECT_FALSE(map.optional("c").has_value());
  EXPECT_NO_THROW(map.finish());
}

TEST(MapReader, RefusesTheFirstKeyThatNobodyAskedFor) {
  MapReader map(*parse("train:\n  steps: 1\n  bach: 2\n  sed: 3\n", "a.yaml").find("train"));
  map.optional("steps");
  map.optional("batch");
  map.optional("seed");

  EXPECT_EQ(input_error([&] { map.finish(); }),
            "a.yaml:3: train.bach is not a key here (did you mean 'batch'?)");
}

TEST(MapReader, NamesTheKeyThatMayHaveBeenMeantForAMissingOne) {
  MapReader map(parse("otput_bytes: 1\nforward_s: 2\n", "a.yaml"));
  map.required("forward_s");

  EXPECT_EQ(input_error([&] { map.required("output_bytes"); }),
            "a.yaml:1: output_bytes is missing, but there is 'otput_bytes'");
  EXPECT_EQ(input_error([&] { map.required("forward_ms"); }), "a.yaml:1: forward_ms is missing");
}

TEST(MapReader, ListsTheKeysWhenNoneIsNear) {
  MapReader map(parse("momentum: 1\n", "a.yaml"));
  map.optional("steps");
  map.optional("batch");

  EXPECT_EQ(input_error([&] { map.finish(); }),
            "a.yaml:1: momentum is not a key here (known: steps, batch)");
}

TEST(MapReader, NamesTheMapInWhichAKeyIsMissing) {
  const Node node = parse("a: 1\nmodel:\n  width: 2\n", "a.yaml");
  MapReader model(*node.find("model"));

  EXPECT_EQ(input_error([&] { model.required("kind"); }), "a.yaml:2: model.kind is missing");
  EXPECT_EQ(input_error([&] { MapReader(node).required("data"); }), "a.yaml:1: data is missing");
}

TEST(MapReader, TakesAnEmptyValueForAnEmptyMap) {
  MapReader map(*parse("train:\n", "a.yaml").find("train"));

  EXPECT_FALSE(map.optional("steps").has_value());
  EXPECT_NO_THROW(map.finish());
  EXPECT_EQ(input_error([&] { map.required("steps"); }), "a.yaml:1: train.steps is missing");
}

TEST(MapReader, RefusesWhatIsNoMap) {
  EXPECT_EQ(input_error([] { MapReader(parse("[1]", "a.yaml")); }),
            "a.yaml:1: the document is a list, must be a map (key: value)");
  EXPECT_EQ(input_error([] { MapReader(*parse("a: 5", "a.yaml").find("a")); }),
            "a.yaml:1: a is 5, must be a map (key: value)");
}

}  // namespace
}  // namespace trireme::io
