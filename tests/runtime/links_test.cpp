// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/links.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme::runtime {
namespace {

using comm::Link;
using comm::Stream;
using Links = std::vector<Link>;

/// A plan whose stages are on these ranks.
plan::Plan on(const std::vector<int>& ranks) {
  plan::Plan plan;
  for (const int rank : ranks) plan.stages.push_back({.rank = rank, .program = {}});
  return plan;
}

TEST(JobLinks, OneRankHasNone) {
  EXPECT_TRUE(job_links(on({0}), 1).empty());
}

TEST(JobLinks, BoundariesAndTheTieOfFirstAndLastLayer) {
  EXPECT_EQ(job_links(on({0, 1, 2}), 1), (Links{{0, 1, Stream::kOutputs},
                                                {1, 0, Stream::kGradients},
                                                {1, 2, Stream::kOutputs},
                                                {2, 1, Stream::kGradients},
                                                {0, 2, Stream::kControl},
                                                {2, 0, Stream::kControl}}));
}

TEST(JobLinks, ARankWithSeveralStagesIsLinkedOnceInEachDirection) {
  EXPECT_EQ(job_links(on({0, 1, 0, 1, 0}), 1), (Links{{0, 1, Stream::kOutputs},
                                                      {1, 0, Stream::kGradients},
                                                      {1, 0, Stream::kOutputs},
                                                      {0, 1, Stream::kGradients}}));
}

TEST(JobLinks, ReplicasAddUpBetweenNeighbours) {
  EXPECT_EQ(job_links(on({0}), 3), (Links{{0, 1, Stream::kControl},
                                          {1, 0, Stream::kControl},
                                          {1, 2, Stream::kControl},
                                          {2, 1, Stream::kControl}}));
  // Ranks 0 and 1 are one replica, 2 and 3 the other.
  EXPECT_EQ(job_links(on({0, 1}), 2), (Links{{0, 1, Stream::kOutputs},
                                             {1, 0, Stream::kGradients},
                                             {0, 1, Stream::kControl},
                                             {1, 0, Stream::kControl},
                                             {2, 3, Stream::kOutputs},
                                             {3, 2, Stream::kGradients},
                                             {2, 3, Stream::kControl},
                                             {3, 2, Stream::kControl},
                                             {0, 2, Stream::kControl},
                                             {2, 0, Stream::kControl},
                                             {1, 3, Stream::kControl},
                                             {3, 1, Stream::kControl}}));
}

}  // namespace
}  // namespace trireme::runtime
