// What a rank computes on, as everything that computes sees it: the CPU, or one CUDA device.
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
  /// What devices that compute alike are called: the processor's name, "NVIDIA H200, 140 GiB".
  virtual std::string model_name() const = 0;

  /// A generator of its own, to be seeded before use.
  virtual at::Generator make_generator() const = 0;
  /// LibTorch's own generator of this device, one per process.
  virtual at::Generator default_generator() const = 0;
  virtual std::unique_ptr<Marks> make_marks() const = 0;

  /// Values of the host as values of this device; the host does not wait for the copy. On CPU the
  /// same tensors.
  virtual std::vector<at::Tensor> fetch(std::vector<at::Tensor> values) const = 0;
  /// `count` values of `type` in host memory that copies from this device reach while the host goes
  /// on; it counts as nobody's.
  virtual at::Tensor landing(std::int64_t count, at::ScalarType type) const = 0;

  /// A name for what the thread gives the device from here to leave(), in a profiler's timeline.
  virtual void enter(const std::string& range) const = 0;
  virtual void leave() const = 0;
  /// Whether a profiler may be looking: else names need not be made.
  virtual bool shows_ranges() const = 0;
};

/// Names what the thread gives the device while it lives; `name` is asked only where it is seen.
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
