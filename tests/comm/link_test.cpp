// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/link.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace trireme::comm {
namespace {

TEST(PipelineLinks, OutputsGoDownAndGradientsComeUp) {
  EXPECT_EQ(pipeline_links(std::array{4, 1, 7}), (std::vector<Link>{{4, 1, Stream::kOutputs},
                                                                    {1, 4, Stream::kGradients},
                                                                    {1, 7, Stream::kOutputs},
                                                                    {7, 1, Stream::kGradients}}));
}

TEST(PipelineLinks, OneStageHasNone) {
  EXPECT_TRUE(pipeline_links(std::array{0}).empty());
}

}  // namespace
}  // namespace trireme::comm
