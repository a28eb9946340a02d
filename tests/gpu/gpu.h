// Fixture of tests that need a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/device/cuda_library.h"

#include <ATen/core/TensorBody.h>
#include <gtest/gtest.h>

#include <string>

namespace trireme::device {

/// Provides `cuda()` and `on_gpu()`; without a GPU the test is skipped with the reason.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda_ = &open_cuda();
    } catch (const InputError& error) {
      GTEST_SKIP() << "needs a GPU: " << error.what();
    }
  }

  CudaPart& cuda() const { return *cuda_; }
  c10::Device on_gpu() const {
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(cuda_->index())};
  }
  /// Whether the tests run on an emulated GPU (tests/emulated_gpu), whose operators run at CPU
  /// speed.
  bool is_emulated() const { return cuda_->describe().find("emulated") != std::string::npos; }

 private:
  CudaPart* cuda_ = nullptr;
};

}  // namespace trireme::device
