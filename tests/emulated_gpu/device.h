// An emulated GPU: host memory that counts as its own, and a default stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stream.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

struct CUstream_st;

namespace emulated {

/// The stream of a cudaStream_t; the default one of the thread's device for null.
Stream& stream_of(CUstream_st* stream);

/// Kinds of memory of a host pointer, as CUDA distinguishes them; unregistered memory is pageable.
enum class MemoryKind { kPageable, kPinned, kDevice };

/// Current allocations. A copy to or from anything else is a fault, as on a GPU.
class MemoryMap {
 public:
  struct Block {
    std::size_t size = 0;
    MemoryKind kind = MemoryKind::kPageable;
    int device = 0;
  };

  void add(const void* begin, const Block& block);
  /// The block that begins there, if any.
  std::optional<Block> remove(const void* begin);
  /// The block that contains this byte.
  std::optional<Block> find(const void* byte) const;
  /// Whether all of these bytes are of that kind. Adjacent blocks count as one.
  bool is_all(const void* begin, std::size_t size, MemoryKind kind) const;

 private:
  using Blocks = std::map<const std::byte*, Block>;
  Blocks::const_iterator holder_of(const std::byte* byte) const;

  mutable std::mutex mutex_;
  Blocks blocks_;
};

/// Devices of this process; made once, never freed: threads use them until the very end.
class Machine {
 public:
  static Machine& get();

  /// TRIREME_EMULATED_GPUS, 2 if unset.
  int devices() const { return static_cast<int>(standard_.size()); }
  /// Bytes of each: TRIREME_EMULATED_GPU_MEMORY in MiB, 4096 if unset.
  std::size_t memory_of_device() const { return memory_; }
  /// The stream that cudaStream_t 0 stands for.
  Stream& standard_stream(int device) { return *standard_.at(static_cast<std::size_t>(device)); }
  /// Of TRIREME_EMULATED_GPU_QUEUES streams of a device, if that is set, the standard one among
  /// them: more are other names for these, in turns.
  Stream& make_stream(int device);
  /// Blocks the host until all streams of one device, or of every device, are done.
  void finish(int device);
  void finish_all();

  /// False if the device does not have that much left.
  bool take(int device, std::size_t size);
  void give_back(int device, std::size_t size);
  std::size_t left(int device);

  MemoryMap& map() { return map_; }

  /// A fault of all devices, until the process ends, as after a fault of a real one.
  void fault(const std::string& what);
  bool has_fault();

 private:
  Machine();
  Stream& make_stream(int device, Stream::Pace pace);
  std::vector<Stream*> streams();

  std::mutex mutex_;
  std::size_t memory_;
  std::vector<Stream*> streams_;
  std::vector<Stream*> standard_;
  std::vector<std::size_t> taken_;
  std::map<int, std::size_t> shared_;  ///< by device, streams that share a queue
  MemoryMap map_;
  bool has_fault_ = false;
};

}  // namespace emulated
