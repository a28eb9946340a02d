// Writes and reads safetensors files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/manifest.h"
#include "trireme/core/units.h"
#include "trireme/io/pieces.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::checkpoint {

/// End of the name of files with frozen tensors, which a run never changes: later checkpoints have
/// the same bytes, mostly by a hard link.
inline constexpr std::string_view kFrozenEnding = ".frozen.safetensors";

/// A tensor to be written.
struct Spec {
  std::string name;
  std::string type;  ///< "F32", "BF16", "I64", ...
  std::vector<std::int64_t> sizes;
  Bytes size;
  std::optional<PartOf> part_of = std::nullopt;
  bool is_constant = false;  ///< as in Entry
};

/// Writes a safetensors file: eight bytes with the length of the JSON header, the header, and the
/// tensors' bytes without gaps.
class TensorFile {
 public:
  /// Creates the file and writes its header. Throws Error.
  TensorFile(std::filesystem::path file, std::vector<Spec> tensors);

  /// Writes all bytes of the next tensor. Throws NoNumberError if a value is not finite, except
  /// infinities of a constant one; Error if they cannot be written.
  void append(std::span<const std::byte> tensor);
  /// After the last one: flushes, closes, and returns where each tensor is.
  Manifest finish();

  /// Bytes that may not be on disk yet: less than 64 MiB, however many tensors there were.
  Bytes unflushed() const;

 private:
  void write(std::span<const std::byte> bytes);

  io::OutputFile out_;
  std::vector<Spec> tensors_;
  std::size_t next_ = 0;
  std::size_t unflushed_ = 0;
  Manifest written_;
};

/// Receives files of tensors, one after the other.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  virtual void begin_file(std::filesystem::path file, std::vector<Spec> tensors) = 0;
  /// All bytes of the file's next tensor. Values are checked here, in end_file(), or when they are
  /// written later.
  virtual void append(std::span<const std::byte> tensor) = 0;
  /// After the last one: returns where each is, as far as that is known by now.
  virtual Manifest end_file() = 0;
};

/// Writes each tensor at once.
class TensorFiles final : public TensorSink {
 public:
  void begin_file(std::filesystem::path file, std::vector<Spec> tensors) override;
  void append(std::span<const std::byte> tensor) override;
  Manifest end_file() override;

 private:
  std::optional<TensorFile> out_;
};

/// Fills `into` with a tensor of the checkpoint in `folder`. Throws InputError if the file is
/// missing or too short, if the bytes are not those that were written, or if a value is not finite
/// (see Entry::is_constant).
void read_tensor(const std::filesystem::path& folder, const std::string& name, const Entry& entry,
                 std::span<std::byte> into);

}  // namespace trireme::checkpoint
