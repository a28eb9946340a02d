// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/replica_sum.h"

#include "trireme/comm/local.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace trireme::runtime {
namespace {

/// Numbers of such different sizes that the order of addition shows in the sum; the first one is
/// -0.
at::Tensor addends(int rank, std::int64_t size) {
  at::Generator random = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(rank));
  at::Tensor values = at::randn({size}, random);
  values.mul_(at::randint(-20, 20, {size}, random).exp2());
  values[0] = -0.0;
  return values;
}

/// Ranks that are not in the group take no part.
void expect_the_ordered_sum(const std::vector<int>& group, std::int64_t size) {
  const int ranks = *std::max_element(group.begin(), group.end()) + 1;
  at::Tensor expected = addends(group.front(), size);
  for (std::size_t i = 1; i < group.size(); ++i) expected += addends(group[i], size);
  comm::run_local(ranks, {.timeout = Seconds(20), .stop_requested = {}},
                  [&](comm::Channel& channel) {
                    if (std::find(group.begin(), group.end(), channel.rank()) == group.end())
                      return channel.close();
                    const at::Tensor values = addends(channel.rank(), size);
                    sum_in_chain(channel, group, values, "sum");
                    EXPECT_TRUE(at::equal(values.view(at::kInt), expected.view(at::kInt)))
                        << "bits on rank " << channel.rank() << " of " << group.size()
                        << " members, " << size << " elements";
                    channel.close();
                  });
}

TEST(ReplicaSum, AddsInTheGroupsOrderWhateverTheSize) {
  const std::vector<std::vector<int>> groups{
      {0}, {0, 1}, {1, 0}, {0, 1, 2}, {2, 0, 1}, {1, 3, 5, 7}, {0, 1, 2, 3, 4, 5}};
  // Blocks have 1024 elements, or from 65536 elements on 1/64 of them.
  for (const std::vector<int>& group : groups) {
    for (const std::int64_t size : {1, 5, 1024, 1025, 2048, 3073, 65536, 100'001})
      expect_the_ordered_sum(group, size);
  }
}

TEST(ReplicaSum, OfNothingLeavesWhatIsBesideItAndSumsBehindItAsTheyWere) {
  const at::Tensor expected = addends(0, 3000) + addends(1, 3000);
  comm::run_local(2, {.timeout = Seconds(20), .stop_requested = {}}, [&](comm::Channel& channel) {
    const at::Tensor values = addends(channel.rank(), 3000);
    sum_in_chain(channel, std::vector{0, 1}, values.narrow(0, 1000, 0), "sum of nothing");
    EXPECT_TRUE(at::equal(values, addends(channel.rank(), 3000)));
    sum_in_chain(channel, std::vector{0, 1}, values, "sum");
    EXPECT_TRUE(at::equal(values, expected));
    channel.close();
  });
}

TEST(ReplicaSum, SaysWhatItWaitedFor) {
  try {
    comm::run_local(2, {.timeout = Seconds(0.3), .stop_requested = {}},
                    [&](comm::Channel& channel) {
                      if (channel.rank() == 1) return;
                      sum_in_chain(channel, std::vector{0, 1}, at::ones({3000}),
                                   "sum of gradients over replicas");
                    });
    FAIL() << "rank 1 did not take part";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("sum of gradients over replicas"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::runtime
