// Copies through a file, compared with the bytes themselves, with an engine that copies as late as
// it may.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/file_relay.h"

#include "trireme/core/error.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

namespace trireme::tier {
namespace {

/// A copy is done only when somebody waits for it or for one that was begun later: it copies what
/// is in the buffer, or on the device, by then.
class LateEngine final : public EngineBuffers {
 public:
  explicit LateEngine(std::size_t size)
      : memory_{std::vector<std::byte>(size), std::vector<std::byte>(size)} {}

  std::array<std::span<std::byte>, 2> buffers() const override { return {memory_[0], memory_[1]}; }
  void begin_out(std::size_t buffer, const std::byte* from, std::size_t size) override {
    begun_.push_back({buffer, memory_.at(buffer).data(), from, size});
  }
  void begin_in(std::size_t buffer, std::byte* to, std::size_t size) override {
    begun_.push_back({buffer, to, memory_.at(buffer).data(), size});
  }
  void wait(std::size_t buffer) override {
    const auto is_of_buffer = [buffer](const Copy& copy) { return copy.buffer == buffer; };
    while (std::any_of(begun_.begin(), begun_.end(), is_of_buffer)) {
      const Copy copy = begun_.front();
      begun_.pop_front();
      std::memcpy(copy.to, copy.from, copy.size);
    }
  }
  bool is_idle() const { return begun_.empty(); }

 private:
  struct Copy {
    std::size_t buffer;
    std::byte* to;
    const std::byte* from;
    std::size_t size;
  };
  mutable std::array<std::vector<std::byte>, 2> memory_;
  std::deque<Copy> begun_;
};

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 random(static_cast<std::uint32_t>(size));
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Parts of these sizes, from the beginning of `device` on, each where the store has room.
std::vector<FilePart> parts_of(std::vector<std::byte>& device, OffloadStore& store,
                               const std::vector<std::int64_t>& sizes) {
  std::vector<FilePart> parts;
  std::byte* from = device.data();
  for (const std::int64_t size : sizes) {
    const OffloadStore::Allocation place = store.reserve(Bytes(size));
    EXPECT_TRUE(store.is_in_file(place.pieces.at(0)));
    parts.push_back({.offset = place.pieces.at(0).offset, .size = size, .device = from});
    from += size;
  }
  return parts;
}

TEST(FileRelay, BringsBackWhatItTookAwayWhateverTheSizes) {
  const std::vector<std::vector<std::int64_t>> cases{
      {1},   {63},       {64},           {65},   {128},          {129},
      {640}, {5, 64, 7}, {200, 1, 1000}, {4096}, {64, 64, 64, 1}};
  for (const std::vector<std::int64_t>& sizes : cases) {
    std::size_t size = 0;
    for (const std::int64_t one : sizes) size += static_cast<std::size_t>(one);
    OffloadStore store({.host = Bytes(0), .disk = Bytes(1 << 16), .checksums = true});
    LateEngine engine(64);
    const std::vector<std::byte> expected = random_bytes(size);
    std::vector<std::byte> device = expected;
    const std::vector<FilePart> parts = parts_of(device, store, sizes);

    relay(CopyDirection::kOut, parts, store, engine);
    EXPECT_TRUE(engine.is_idle());
    std::fill(device.begin(), device.end(), std::byte{0});
    relay(CopyDirection::kIn, parts, store, engine);

    EXPECT_TRUE(engine.is_idle());
    EXPECT_EQ(device, expected) << sizes.size() << " parts, " << size << " B";
  }
}

TEST(FileRelay, OfNoPartsDoesNothing) {
  OffloadStore store({.host = Bytes(0), .disk = Bytes(4096)});
  LateEngine engine(64);
  const std::vector<std::byte> expected = random_bytes(200);
  std::vector<std::byte> device = expected;
  const std::vector<FilePart> parts = parts_of(device, store, {200});
  relay(CopyDirection::kOut, parts, store, engine);
  std::fill(device.begin(), device.end(), std::byte{0});

  relay(CopyDirection::kOut, {}, store, engine);
  relay(CopyDirection::kIn, {}, store, engine);

  EXPECT_TRUE(engine.is_idle());
  EXPECT_EQ(device, std::vector<std::byte>(200));
  relay(CopyDirection::kIn, parts, store, engine);
  EXPECT_EQ(device, expected);
}

TEST(FileRelay, NoticesThatTheFileWasCut) {
  OffloadStore store({.host = Bytes(0), .disk = Bytes(8192)});
  LateEngine engine(256);
  std::vector<std::byte> device = random_bytes(8192);
  const std::vector<FilePart> parts = parts_of(device, store, {8192});
  relay(CopyDirection::kOut, parts, store, engine);
  ASSERT_EQ(ftruncate(store.descriptor(), 5000), 0);
  EXPECT_THROW(relay(CopyDirection::kIn, parts, store, engine), Error);
}

}  // namespace
}  // namespace trireme::tier
