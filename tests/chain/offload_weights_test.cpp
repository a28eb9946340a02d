// Streamed weights: what a chain file says of them, and what a rank holds.
// SPDX-License-Identifier: Apache-2.0
#include "chain/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trireme::chain {
namespace {

TEST(ReadChain, RefusesMoreFrozenBytesThanParameters) {
  EXPECT_THAT(
      refusal(kHead + "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9, "
                      "parameter_bytes: 5, frozen_bytes: 6}\n"),
      testing::HasSubstr("layer 1 (a).frozen_bytes is 6, must be at most parameter_bytes, "
                         "5: it is a part of them"));
}

TEST(ReadChain, RefusesMoreThatStaysOfATapeThanIsInIt) {
  const std::string layer =
      "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9, ";
  const Chain chain = read(kHead + layer + "tape_stays_bytes: 4}\n");
  EXPECT_EQ(chain.layer(1).tape_moves(), Bytes(5));
  EXPECT_EQ(read_chain(io::parse(to_yaml(chain), "again")), chain);
  EXPECT_THAT(refusal(kHead + layer + "tape_stays_bytes: 10}\n"),
              testing::HasSubstr("layer 1 (a).tape_stays_bytes is 10, must be at most tape_bytes, "
                                 "9: it is a part of them"));
}

TEST(ReadChain, ReadsWhatIsTrainedAndMayLeave) {
  const std::string layer =
      "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9, parameter_bytes: "
      "5, gradient_bytes: 10, trained_bytes: 4";
  const Chain chain = read(kHead + layer + ", trained_gradient_bytes: 8}\n");
  const OffloadWeights expected{.weights = Bytes(4), .gradients = Bytes(8), .is_trained = true};
  EXPECT_EQ(chain.layer(1).may_leave(), expected);
  EXPECT_EQ(read_chain(io::parse(to_yaml(chain), "again")), chain);
  EXPECT_EQ(read(kHead + layer + "}\n").layer(1).trained_gradients, Bytes(10)) << "all of them";
}

TEST(ReadChain, RefusesWhatMayLeaveAndIsNotThere) {
  const std::string layer =
      "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9, parameter_bytes: "
      "5, gradient_bytes: 10, ";
  const std::vector<std::pair<std::string, std::string>> table{
      {"trained_bytes: 6", "layer 1 (a).trained_bytes is 6, must be at most parameter_bytes, 5"},
      {"trained_bytes: 5, trained_gradient_bytes: 11",
       "layer 1 (a).trained_gradient_bytes is 11, must be at most gradient_bytes, 10"},
      {"trained_gradient_bytes: 1", "trained_gradient_bytes needs trained_bytes above 0, too"},
      {"trained_bytes: 1, frozen_bytes: 1", "trained_bytes is given together with frozen_bytes"}};
  for (const auto& [text, message] : table)
    EXPECT_THAT(refusal(kHead + layer + text + "}\n"), testing::HasSubstr(message));
}

std::vector<OffloadWeights> frozen(const std::vector<int>& sizes) {
  std::vector<OffloadWeights> layers;
  for (const int size : sizes) layers.push_back({.weights = Bytes(size), .gradients = {}});
  return layers;
}

TEST(WeightsWindow, IsThatOfTheLargest) {
  EXPECT_EQ(weights_window({}, 2), Bytes(0));
  EXPECT_EQ(weights_window(frozen({7}), 2), Bytes(7));
  EXPECT_EQ(weights_window(frozen({3, 9, 1, 9}), 2), Bytes(18));
  EXPECT_EQ(weights_window(frozen({9, 3, 4}), 2), Bytes(13));
  EXPECT_EQ(weights_window(frozen({9, 3, 4, 1}), 3), Bytes(16));
}

TEST(WeightsWindow, HasRoomForGradientsAndForWhatLeaves) {
  const OffloadWeights half{.weights = Bytes(2), .gradients = Bytes(4), .is_trained = true};
  EXPECT_EQ(weights_window({half, half}, 2), Bytes(12)) << "nothing leaves";
  EXPECT_EQ(weights_window({half, {}, {}, half}, 2), Bytes(12));
  EXPECT_EQ(weights_window({half, half, half}, 2), Bytes(16));
  EXPECT_EQ(weights_window({half, frozen({9})[0], half}, 2), Bytes(9 + 6 + 4));
}

}  // namespace
}  // namespace trireme::chain
