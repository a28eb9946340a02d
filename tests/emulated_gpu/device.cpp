// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "timed.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace emulated {
namespace {

std::size_t setting(const char* name, std::size_t standard) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  const char* const text = std::getenv(name);
  return text == nullptr ? standard : static_cast<std::size_t>(std::atoll(text));
}

/// An emulated GPU runs operators, not GPU code: it also has those of Trireme's own kernels, unless
/// the environment turns them off.
[[gnu::constructor]] void have_no_kernels() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before there is any thread
  ::setenv("TRIREME_OWN_KERNELS", "emulated", /*overwrite=*/0);
}

}  // namespace

void MemoryMap::add(const void* begin, const Block& block) {
  const std::lock_guard lock(mutex_);
  blocks_[static_cast<const std::byte*>(begin)] = block;
}

std::optional<MemoryMap::Block> MemoryMap::remove(const void* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(begin));
  if (found == blocks_.end()) return std::nullopt;
  const Block block = found->second;
  blocks_.erase(found);
  return block;
}

std::optional<MemoryMap::Block> MemoryMap::find(const void* byte) const {
  const std::lock_guard lock(mutex_);
  const auto found = holder_of(static_cast<const std::byte*>(byte));
  if (found == blocks_.end()) return std::nullopt;
  return found->second;
}

bool MemoryMap::is_all(const void* begin, std::size_t size, MemoryKind kind) const {
  const std::lock_guard lock(mutex_);
  const auto* at = static_cast<const std::byte*>(begin);
  const std::byte* const end = at + size;
  while (at < end) {
    const auto found = holder_of(at);
    if (found == blocks_.end() || found->second.kind != kind) return false;
    at = found->first + found->second.size;
  }
  return true;
}

MemoryMap::Blocks::const_iterator MemoryMap::holder_of(const std::byte* byte) const {
  auto next = blocks_.upper_bound(byte);
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return byte < next->first + next->second.size ? next : blocks_.end();
}

Machine& Machine::get() {
  static auto* const machine = new Machine;
  return *machine;
}

Machine::Machine() : memory_(setting("TRIREME_EMULATED_GPU_MEMORY", 4096) << 20) {
  const std::size_t devices = setting("TRIREME_EMULATED_GPUS", emulated::is_timed() ? 1 : 2);
  taken_.resize(devices);
  for (std::size_t i = 0; i < devices; ++i)
    standard_.push_back(&make_stream(static_cast<int>(i), Stream::Pace::kLate));
}

Stream& Machine::make_stream(int device) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  const char* const mode = std::getenv("TRIREME_EMULATED_GPU");
  const bool is_early = mode != nullptr && std::string_view(mode) == "late_compute";
  static const std::size_t queues = setting("TRIREME_EMULATED_GPU_QUEUES", 0);
  if (queues > 0) {
    std::vector<Stream*> there = streams();
    std::erase_if(there, [&](const Stream* one) { return one->device() != device; });
    const std::lock_guard lock(mutex_);
    if (there.size() >= queues) return *there[shared_[device]++ % there.size()];
  }
  return make_stream(device, is_early ? Stream::Pace::kEarly : Stream::Pace::kLate);
}

Stream& Machine::make_stream(int device, Stream::Pace pace) {
  const std::lock_guard lock(mutex_);
  return *streams_.emplace_back(new Stream(device, pace));
}

void Machine::finish(int device) {
  standard_.at(static_cast<std::size_t>(device))->finish_for_host();  // one wait, for all streams
  for (Stream* const stream : streams())
    if (stream->device() == device) stream->finish();
}

void Machine::finish_all() {
  for (int device = 0; device < devices(); ++device) finish(device);
}

std::vector<Stream*> Machine::streams() {
  const std::lock_guard lock(mutex_);
  return streams_;
}

bool Machine::take(int device, std::size_t size) {
  const std::lock_guard lock(mutex_);
  std::size_t& taken = taken_.at(static_cast<std::size_t>(device));
  if (size > memory_ - taken) return false;
  taken += size;
  return true;
}

void Machine::give_back(int device, std::size_t size) {
  const std::lock_guard lock(mutex_);
  taken_.at(static_cast<std::size_t>(device)) -= size;
}

std::size_t Machine::left(int device) {
  const std::lock_guard lock(mutex_);
  return memory_ - taken_.at(static_cast<std::size_t>(device));
}

void Machine::fault(const std::string& what) {
  const std::lock_guard lock(mutex_);
  has_fault_ = true;
  std::fprintf(stderr, "emulated GPU: %s\n", what.c_str());
}

bool Machine::has_fault() {
  const std::lock_guard lock(mutex_);
  return has_fault_;
}

}  // namespace emulated
