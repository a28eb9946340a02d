// Kernels built by NVRTC for GPUs that are not there.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/built_kernels.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>

namespace trireme::kernels {
namespace {

TEST(BuiltKernels, AreMachineCodeForGpusThatNvrtcKnows) {
  for (const auto& [major, minor] : {std::pair{8, 0}, {9, 0}, {12, 0}})
    EXPECT_EQ(build(major, minor).substr(1, 3), "ELF") << major;
}

TEST(BuiltKernels, AreLeftToTheDriverForNewerOnes) {
  EXPECT_THAT(build(99, 0), testing::HasSubstr(".visible .entry log_likelihood"));
}

TEST(BuiltKernels, ThereAreNoneForGpusBeforeThem) {
  try {
    build(1, 0);
    FAIL() << "nobody builds for these";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("compute capability 1.0 is older"));
  }
}

}  // namespace
}  // namespace trireme::kernels
