// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/manifest.h"

#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::checkpoint {
namespace {

using support::input_error;
using testing::HasSubstr;

Manifest sample() {
  return {.step = 300,
          .data = "d",
          .threads = 3,
          .ties = {{"embedding", "embed/token.weight"}},
          .tensors = {{"parameters/a \"b\"/w",
                       {.file = "rank-0.safetensors",
                        .type = "F32",
                        .sizes = {3, 5'000'000'000},
                        .offset = Bytes(128),
                        .size = Bytes(std::int64_t{60'000'000'000}),
                        .digest = "0123"}},
                      {"losses",
                       {.file = "rank-0.safetensors",
                        .type = "F32",
                        .sizes = {},
                        .offset = {},
                        .size = Bytes(4),
                        .digest = "4567"}}}};
}

TEST(Manifest, ReadsBackAsWritten) {
  EXPECT_EQ(read_manifest(io::parse(to_json(sample()), "manifest")), sample());
  EXPECT_EQ(read_manifest(io::parse(to_json({}), "manifest")), Manifest());
}

TEST(Manifest, OfTwoRanksHasTheTensorsOfBoth) {
  Manifest all = sample();
  merge(all, {.ties = {{"t", "x"}}, .tensors = {{"x", {.file = "rank-1.safetensors"}}}});
  EXPECT_EQ(all.tensors.size(), 3U);
  EXPECT_EQ(all.ties.size(), 2U);
  EXPECT_EQ(all.step, 300);
  EXPECT_THAT(input_error([&] { merge(all, sample()); }),
              HasSubstr("two tensors of this model are called 'losses'"));
}

TEST(Manifest, RefusesWhatItDoesNotMean) {
  const std::string text = to_json(sample());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return input_error([&] { read_manifest(io::parse(changed, "manifest")); });
  };
  EXPECT_THAT(with("trireme-checkpoint/1", "trireme-checkpoint/9"),
              HasSubstr("manifest:1: format"));
  EXPECT_THAT(with("\"step\": 300", "\"step\": -1"), HasSubstr("step is -1"));
  EXPECT_THAT(with("rank-0.safetensors", "../rank-0"), HasSubstr("beside the manifest"));
  EXPECT_THAT(with("\"digest\"", "\"digset\""), HasSubstr("tensors[0].digest is missing"));
}

}  // namespace
}  // namespace trireme::checkpoint
