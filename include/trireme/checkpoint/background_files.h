// Background checkpoints: files of tensors that are written while training goes on.
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

/// Copies tensors to host memory that no budget counts, and writes them on a thread of its own. The
/// memory is kept for the next checkpoint.
class BackgroundFiles final : public TensorSink {
 public:
  BackgroundFiles() = default;
  ~BackgroundFiles() override;
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// Throws Error if memory for its tensors cannot be allocated.
  void begin_file(std::filesystem::path file, std::vector<Spec> tensors) override;
  void append(std::span<const std::byte> tensor) override;
  /// Empty: finish() says where the tensors are.
  Manifest end_file() override { return {}; }
  /// Bytes that all files can have before more memory is allocated.
  Bytes room() const;

  /// Starts to write all files.
  void start();
  /// Whether the writing has ended or failed.
  bool is_done() const;
  /// Stops the writing after the current tensor; files are left incomplete.
  void give_up();
  /// Waits for the writing, and returns where each tensor is. Throws what the writing threw.
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
