// Files of tensors that are written while steps go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/core/units.h"

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <future>
#include <span>
#include <vector>

namespace trireme::checkpoint {

/// Takes copies of tensors, in host memory that no budget counts, and writes them by a thread of
/// its own. The memory is kept for the next time.
class BackgroundFiles final : public TensorSink {
 public:
  BackgroundFiles() = default;
  ~BackgroundFiles() override;
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// Throws Error where memory for its tensors is not to be had.
  void begin_file(std::filesystem::path file, std::vector<Spec> tensors) override;
  void append(std::span<const std::byte> tensor) override;
  /// Nothing: finish() says where they are.
  Manifest end_file() override { return {}; }
  /// What all of them can take before other memory is needed.
  Bytes room() const;

  /// Writes all of that.
  void start();
  /// Or failed.
  bool is_done() const;
  /// Leaves what is being written as it is, after the tensor at hand.
  void give_up();
  /// Waits, and says where each tensor is. Throws what the writing threw.
  Manifest finish();

 private:
  struct File {
    std::filesystem::path path;
    std::vector<Spec> tensors;
  };
  Manifest written() const;
  void make_room(std::size_t needed);

  std::vector<File> files_;
  std::vector<std::byte> bytes_;
  std::atomic<bool> stops_ = false;
  std::future<Manifest> writing_;
};

}  // namespace trireme::checkpoint
