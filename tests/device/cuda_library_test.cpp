// Messages to a user without a GPU, without its libraries or without the CUDA part of the build.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/cuda_library.h"

#include "support/command.h"

#include "trireme/core/error.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace trireme::device {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string problem_with(const std::filesystem::path& library) {
  try {
    load_cuda(library);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CudaLibrary, AMissingOneIsNamedWithWhatBuildsIt) {
  EXPECT_THAT(problem_with("/nowhere/libtrireme_cuda.so"),
              AllOf(StartsWith("device: cuda: /nowhere/libtrireme_cuda.so is missing"),
                    HasSubstr("TRIREME_CUDA=1 ./launch/build"), HasSubstr("device: cpu")));
}

TEST(CudaLibrary, OneThatCannotBeLoadedIsNamedWithTheReason) {
  const TemporaryFolder folder;
  EXPECT_THAT(problem_with(folder.file("libtrireme_cuda.so", "not a library")),
              AllOf(HasSubstr("cannot be loaded"), HasSubstr("TRIREME_CUDA=1 ./launch/install")));
}

TEST(CudaLibrary, OneOfAnotherKindIsRefused) {
  EXPECT_THAT(problem_with(TRIREME_TORCH_LIBRARY), HasSubstr("has no trireme_cuda_open"));
}

TEST(CudaLibrary, DeterministicKernelsAreAskedOfLibTorchAndOfCublas) {
  use_deterministic_kernels();

  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  EXPECT_NE(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);  // NOLINT(concurrency-mt-unsafe)
}

TEST(CudaLibrary, OpensTheGpuOrSaysWhatIsMissing) {
  try {
    std::cout << open_cuda().describe() << "\n";
  } catch (const InputError& error) {
    std::cout << error.what() << "\n";
#ifdef TRIREME_HAS_CUDA
    EXPECT_THAT(error.what(), AnyOf(HasSubstr("cannot be loaded: lib"), HasSubstr("NVIDIA driver"),
                                    HasSubstr("the driver finds no GPU")));
#else
    EXPECT_THAT(error.what(), HasSubstr("this build has no CUDA part"));
#endif
  }
}

}  // namespace
}  // namespace trireme::device
