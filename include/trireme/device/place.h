// Interface to the device that a rank computes on: the CPU, or one CUDA device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/marks.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace trireme::device {

/// Used by any number of ranks (threads) at a time.
class Place {
 public:
  virtual ~Place() = default;
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  virtual c10::Device device() const = 0;
  /// "CPU", "GPU 0 (NVIDIA H200, 140 GiB)".
  virtual std::string describe() const = 0;
  /// Name of the hardware, equal for devices that compute alike: the processor's name, "NVIDIA
  /// H200, 140 GiB".
  virtual std::string model_name() const = 0;

  /// A new random generator, to be seeded before use.
  virtual at::Generator make_generator() const = 0;
  /// LibTorch's default generator of this device, one per process.
  virtual at::Generator default_generator() const = 0;
  virtual std::unique_ptr<Marks> make_marks() const = 0;

  /// Copies host tensors to this device; the host does not wait for the copy. On CPU the same
  /// tensors.
  virtual std::vector<at::Tensor> fetch(std::vector<at::Tensor> values) const = 0;
  /// A host tensor of `count` values of `type` for asynchronous copies from this device; it is
  /// charged to no memory account.
  virtual at::Tensor landing(std::int64_t count, at::ScalarType type) const = 0;

  /// Begins a named range of the work that the thread queues until leave(), shown in a profiler's
  /// timeline.
  virtual void enter(const std::string& range) const = 0;
  virtual void leave() const = 0;
  /// Whether a profiler may see ranges; otherwise names need not be made.
  virtual bool shows_ranges() const = 0;
};

/// Names the work that the thread queues while this lives; `name` is called only where ranges are
/// shown.
class Range {
 public:
  template <class Name>
  Range(const Place& place, const Name& name) : place_(place.shows_ranges() ? &place : nullptr) {
    if (place_ != nullptr) place_->enter(name());
  }
  ~Range() {
    if (place_ != nullptr) place_->leave();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const Place* place_;
};

/// The CPU.
const Place& cpu();

}  // namespace trireme::device
