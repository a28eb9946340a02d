// Tests that need a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/device/cuda_library.h"

#include <ATen/core/TensorBody.h>
#include <gtest/gtest.h>

namespace trireme::device {

/// `cuda()` and `on_gpu()` are there; else the test is skipped with the reason.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda_ = &open_cuda();
    } catch (const DeviceError& error) {
      GTEST_SKIP() << "needs a GPU: " << error.what();
    }
  }

  CudaPart& cuda() const { return *cuda_; }
  c10::Device on_gpu() const {
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(cuda_->index())};
  }

 private:
  CudaPart* cuda_ = nullptr;
};

}  // namespace trireme::device
