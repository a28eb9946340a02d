// What collectives must return over every transport; see conformance.h for what a backend is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme::comm {

/// Values of such different magnitudes that the order of adding shows in the sum.
inline std::vector<float> addends(int rank, std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t random = mix(static_cast<std::uint64_t>(rank), i);
    const auto mantissa = static_cast<float>(static_cast<double>(random >> 11) * 0x1p-53 - 0.5);
    values[i] = std::ldexp(mantissa, static_cast<int>(random % 40) - 20);
  }
  // A sum that starts from zero instead of from the first member would lose the sign.
  if (size > 0) values[0] = -0.0F;
  return values;
}

/// The definition: ((g0 + g1) + g2) + ...
inline std::vector<float> serial_sum(std::span<const int> group, std::size_t size) {
  std::vector<float> sum = addends(group.front(), size);
  for (const int rank : group.subspan(1)) {
    const std::vector<float> next = addends(rank, size);
    for (std::size_t i = 0; i < size; ++i) sum[i] += next[i];
  }
  return sum;
}

inline std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

/// The members of a group sum; other ranks do not take part.
inline void expect_serial_sum(Channel& channel, const std::vector<int>& group, std::size_t size) {
  if (std::find(group.begin(), group.end(), channel.rank()) == group.end()) return;
  std::vector<float> values = addends(channel.rank(), size);
  all_reduce_sum(channel, group, values, "0:reduce_gradients 0");
  EXPECT_EQ(bits(values), bits(serial_sum(group, size)))
      << "rank " << channel.rank() << " of a group of " << group.size() << ", " << size
      << " elements";
}

template <class Backend>
class Collectives : public testing::Test {};
TYPED_TEST_SUITE_P(Collectives);

TYPED_TEST_P(Collectives, AllReduceGivesTheBitsOfTheSerialSum) {
  TypeParam::run(patient(), [](Channel& channel) {
    for (const std::size_t size : {0, 1, 2, 3, 5, 64, 1000, 4099})
      expect_serial_sum(channel, everyone(channel), size);
  });
}

TYPED_TEST_P(Collectives, AllReduceOfMillionsOfElementsGivesTheBitsOfTheSerialSum) {
  TypeParam::run(patient(), [](Channel& channel) {
    expect_serial_sum(channel, everyone(channel), (std::size_t{5} << 19) + 3);
  });
}

TYPED_TEST_P(Collectives, AllReduceAddsInTheGroupsOrderNotInTheRanks) {
  TypeParam::run(patient(), [](Channel& channel) {
    const std::vector<int> forward = everyone(channel);
    const std::vector<int> backward(forward.rbegin(), forward.rend());
    if (channel.size() > 2) {
      EXPECT_NE(bits(serial_sum(forward, 1000)), bits(serial_sum(backward, 1000)));
    }
    expect_serial_sum(channel, backward, 1000);
    expect_serial_sum(channel, forward, 1000);
  });
}

TYPED_TEST_P(Collectives, GroupsThatShareNoRankDoNotDisturbEachOther) {
  TypeParam::run(patient(), [](Channel& channel) {
    std::vector<std::vector<int>> groups(2);
    for (const int rank : everyone(channel)) groups[rank % 2 == 0 ? 0 : 1].push_back(rank);
    for (int round = 0; round < 5; ++round)
      for (const auto& group : groups) expect_serial_sum(channel, group, 777);
  });
}

TYPED_TEST_P(Collectives, AllGatherGivesEveryContributionInTheGroupsOrder) {
  TypeParam::run(patient(), [](Channel& channel) {
    std::vector<int> group = everyone(channel);
    std::reverse(group.begin(), group.end());
    const auto contribution = [](int rank) {
      return pattern(rank == 1 ? 0 : static_cast<std::size_t>(rank) * 5000 + 3, seed_of(rank, 0));
    };
    const auto gathered = all_gather(channel, group, contribution(channel.rank()), "gather");

    std::vector<Buffer> expected;
    for (const int rank : group) expected.push_back(contribution(rank));
    EXPECT_EQ(gathered, expected);
  });
}

TYPED_TEST_P(Collectives, BroadcastGivesTheFirstMembersText) {
  TypeParam::run(patient(), [](Channel& channel) {
    std::vector<int> group = everyone(channel);
    std::reverse(group.begin(), group.end());
    const auto text = [](int rank) {
      return std::string(10000, 'x') + concat("plan of rank ", rank);
    };
    EXPECT_EQ(broadcast(channel, group, text(channel.rank()), "plan"), text(group.front()));
    EXPECT_EQ(broadcast(channel, group, "", "nothing"), "");
  });
}

TYPED_TEST_P(Collectives, AnyOfIsWhatOneRankSays) {
  TypeParam::run(patient(), [](Channel& channel) {
    EXPECT_FALSE(any_of(channel, false, "nobody"));
    for (int rank = 0; rank < channel.size(); ++rank) {
      EXPECT_TRUE(any_of(channel, channel.rank() == rank, "one"));
    }
    EXPECT_TRUE(any_of(channel, true, "everybody"));
  });
}

TYPED_TEST_P(Collectives, ACallerOutsideTheGroupIsRefused) {
  TypeParam::run(patient(), [](Channel& channel) {
    const std::vector<int> others{channel.size()};
    EXPECT_THROW(barrier(channel, others, "barrier"), LogicError);
  });
}

REGISTER_TYPED_TEST_SUITE_P(Collectives, AllReduceGivesTheBitsOfTheSerialSum,
                            AllReduceOfMillionsOfElementsGivesTheBitsOfTheSerialSum,
                            AllReduceAddsInTheGroupsOrderNotInTheRanks,
                            GroupsThatShareNoRankDoNotDisturbEachOther,
                            AllGatherGivesEveryContributionInTheGroupsOrder,
                            BroadcastGivesTheFirstMembersText, AnyOfIsWhatOneRankSays,
                            ACallerOutsideTheGroupIsRefused);

}  // namespace trireme::comm
