// LibTorch's operators on a timed GPU, which computes nothing: results of the right sizes after the
// right time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace emulated {

/// Boxed, for any operator. A matrix product takes its FLOP at Rates::products, attention at
/// Rates::attention, everything takes at least the bytes of its tensors at Rates::memory. With
/// TRIREME_EMULATED_GPU_COUNT=FILE, calls, bytes, FLOP and seconds of each operator are written
/// there when the process ends.
void run_timed(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// The same for a copy that changes type or layout on a device.
void count_conversion(const at::Tensor& to, const at::Tensor& from);

}  // namespace emulated
